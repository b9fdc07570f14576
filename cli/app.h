// Purpose: the whole program behind main(): prepares the process and the arguments, and runs the command.
#pragma once

#include <string>
#include <vector>

#include "cli/commands/command.h"
#include "supervisor/protocol/result.h"

// The whole program behind main(), without the parser's headers.

namespace elastictrain::cli {

// The process's exit status (cli/commands/exit_code.h, or that of the first failing worker).
int run_cli(int argc, char** argv);

// Prepares the process of every command before it does anything. Thread: the only one. Failure: a sentence for
// the user.

// Standard streams that are closed refer to /dev/null from here on, so that no file or socket gets their number and
// with it what is printed. kUnavailable: the stack is limited to less than the program needs.
Status prepare_process();

// Prepares the arguments of the command line for the parser.

// Arguments without the program's name. A bare -l or --label becomes the default label. The arguments of
// `run`, `check` and `plan` after the first "--", or from the first word that is a program (run_flags.h), go to
// `program`; of `torchrun` those from the first that is neither an option nor an option's value, and its options may be
// written with underscores.
std::vector<std::string> prepare_arguments(const std::vector<Command>& commands, std::vector<std::string> arguments,
                                           std::vector<std::string>& program);

}  // namespace elastictrain::cli

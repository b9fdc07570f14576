// Purpose: prepares the arguments of the command line for the parser.
#pragma once

#include <string>
#include <vector>

#include "cli/commands/command.h"

namespace elastictrain::cli {

// Arguments without the program's name. A bare -l or --label becomes the default label. The arguments of
// `run`, `check` and `plan` after the first "--", or from the first word that is a program (program_word.h), go to
// `program`; of `torchrun` those from the first that is neither an option nor an option's value, and its options may be
// written with underscores.
std::vector<std::string> prepare_arguments(const std::vector<Command>& commands, std::vector<std::string> arguments,
                                           std::vector<std::string>& program);

}  // namespace elastictrain::cli

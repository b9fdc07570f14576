// Purpose: the parser of the command line, and what is done to the arguments before it sees them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/commands/command.h"

namespace elastictrain::cli {

// The parser with every subcommand, for run_cli(), the completion scripts and the tests.
std::unique_ptr<CLI::App> make_app(Invocation& invocation);

// Arguments without the program's name. A bare -l or --label becomes the default label. The arguments after the first "--"
// of `run`, `check` and `plan` go to `program`.
std::vector<std::string> prepare_arguments(std::vector<std::string> arguments, std::vector<std::string>& program);

}  // namespace elastictrain::cli

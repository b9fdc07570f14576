// Purpose: the command line, read by the commands' own descriptions (cli/commands/command.h). Help and mistakes are
// printed here, in the terms of users: CLI11's own texts name positional arguments by their internal name and do not
// say what to do next. CLI11 does the parsing; only parser.cc includes it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands/command.h"

namespace elastictrain::cli {

struct ProgramText {
  std::string version;   // "elastictrain 1.2.3"
  std::string build_id;  // for --build-id
  std::string footer;    // of --help
};

// `arguments`: without the program's name and without those after "--". On success the command has chosen its action,
// and there is no result. Otherwise, also after --help and --version, it is the exit status.
std::optional<int> parse_arguments(const std::vector<Command>& commands, const ProgramText& program,
                                   const std::vector<std::string>& arguments);

}  // namespace elastictrain::cli

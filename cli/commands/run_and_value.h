// Purpose: the arguments "[NAME] VALUE" of the commands that change a run. The run's name comes first, and may be
// omitted if only one run is live.
#pragma once

#include <functional>
#include <string>

#include "cli/commands/command.h"

namespace elastictrain::cli {

struct RunAndValue {
  std::string run;
  std::string value;
};

// The value as users know it.
struct ValueArgument {
  const char* type;     // in the usage line: "N"
  std::string help;     // "number of workers"
  const char* missing;  // the request where there is none: "say how many workers"
  const char* example;  // a whole command
};

// The command `name` of that kind. `use` gets the arguments once the command line is read, and returns what is wrong
// with the value.
Command client_command(std::string name, std::string help, const ValueArgument& argument,
                       std::function<Status(const RunAndValue&)> use);

}  // namespace elastictrain::cli

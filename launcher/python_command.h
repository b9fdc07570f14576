// Purpose: the parts of a command that runs a Python program, so that another process of the same interpreter can run
// it in its place.
//
// Pure. Source: the options of python(1).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace elastictrain::launcher {

struct PythonCommand {
  std::vector<std::string> interpreter;  // python with its own options
  std::vector<std::string> program;      // SCRIPT or -m MODULE, with arguments
};

// Nothing: it is no interpreter's command, or its program is text (-c), standard input or an option of no program.
std::optional<PythonCommand> python_command(const std::vector<std::string>& argv);

}  // namespace elastictrain::launcher

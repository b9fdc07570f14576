// Purpose: what is done to the arguments before the parser sees them.
#pragma once

#include <string>
#include <vector>

namespace elastictrain::cli {

// Arguments without the program's name. A bare -l or --label becomes the default label. The arguments after the first
// "--" of `run`, `check` and `plan` go to `program`.
std::vector<std::string> prepare_arguments(std::vector<std::string> arguments, std::vector<std::string>& program);

}  // namespace elastictrain::cli

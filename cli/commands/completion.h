// Purpose: completion scripts for shells.
#pragma once

#include <string>

namespace elastictrain::cli {

// `shell` is "bash", "zsh" or "fish".
std::string completion_script(const std::string& shell);

}  // namespace elastictrain::cli

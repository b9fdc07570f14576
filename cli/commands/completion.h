// Purpose: completion scripts for shells.
#pragma once

#include <string>
#include <vector>

#include "cli/commands/command.h"

namespace elastictrain::cli {

// `shell` is "bash", "zsh" or "fish".
std::string completion_script(const std::vector<Command>& commands, const std::string& shell);

}  // namespace elastictrain::cli

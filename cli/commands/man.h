// Purpose: manual pages of the commands and of the configuration, and the command that writes them for packages.
#pragma once

#include <string>
#include <vector>

#include "cli/commands/command.h"

// Manual pages in the language of man(7), from the descriptions of the commands: what --help prints, as pages.
// Pure.

namespace elastictrain::cli {

// "elastictrain-run.1" for one command, "elastictrain.1" for all of them together.
std::string man_page(const Command& command);
std::string man_page_of_all(const std::vector<Command>& commands);
// "elastictrain-config.5": every configuration key.
std::string man_page_of_keys();

}  // namespace elastictrain::cli

// Purpose: manual pages in the language of man(7), from the descriptions of the commands: what --help prints, as pages.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/commands/command.h"

namespace elastictrain::cli {

// "elastictrain-run.1" for one command, "elastictrain.1" for all of them together.
std::string man_page(const Command& command);
std::string man_page_of_all(const std::vector<Command>& commands);
// "elastictrain-config.5": every configuration key.
std::string man_page_of_keys();

}  // namespace elastictrain::cli

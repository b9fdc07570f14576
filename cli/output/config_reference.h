// Purpose: the page of all configuration keys, cli/CONFIGURATION.md, made from the schema. Pure.
#pragma once

#include <span>
#include <string>

namespace elastictrain::cli {

// Markdown: an introduction, then a table of keys for each section.
std::string render_config_reference();

// A flag of `run` that is not the flag of one key alone.
struct SharedFlag {
  const char* flag;      // as users type it: "-n, --np"
  const char* argument;  // "" where it takes none
  const char* keys;      // names separated by spaces
};
std::span<const SharedFlag> shared_flags();

}  // namespace elastictrain::cli

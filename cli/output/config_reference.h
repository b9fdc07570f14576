// Purpose: descriptions of all configuration keys: the reference page, and the JSON schema for editors. Pure.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "cli/config/schema.h"

// The page of all configuration keys, cli/CONFIGURATION.md, made from the schema. Pure.

namespace elastictrain::cli {

// Markdown: an introduction, then a table of keys for each section.
std::string render_config_reference();

// Of a key's value: the type in the terms of TOML, and what is allowed, "" for anything.
std::pair<std::string, std::string> type_and_values(const KeySpec& key);

// A flag of `run` that is not the flag of one key alone.
struct SharedFlag {
  const char* flag;      // as users type it: "-n, --np"
  const char* argument;  // "" where it takes none
  const char* keys;      // names separated by spaces
};
std::span<const SharedFlag> shared_flags();

// A JSON schema (draft 7) of the configuration, for editors, from the one table of keys. Pure.

std::string render_config_schema();

}  // namespace elastictrain::cli

// Purpose: reads a config file into entries of the schema, each with its place. The only user of toml++. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/config/key_value.h"
#include "cli/config/schema.h"

namespace elastictrain::cli {

struct TomlEntry {
  const KeySpec* key = nullptr;
  Value value;
  std::string where;  // "file:line:col" of the key
};

struct TomlFile {
  std::vector<TomlEntry> entries;
  std::vector<std::string> mistakes;  // syntax errors, unknown sections and keys, unusable values; each with its place
};

TomlFile read_toml(std::string_view text, const std::string& file_name);

// 'unknown key "workrs" in [run]; did you mean "workers"?' for a full key such as "run.workrs".
std::string unknown_key_text(std::string_view name);

}  // namespace elastictrain::cli

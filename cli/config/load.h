// Purpose: a configuration from its sources, merged and checked, and its snapshot, from which a resumed run reads it
// back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cli/config/run_config.h"
#include "supervisor/protocol/result.h"

// Merges a file, the environment and the command line into one checked RunConfig. Precedence: flag >
// environment > file > default. Every mistake is reported with its place: "file:line:col", the flag, or the variable.
//
// Pure except read_config_file(). Thread: any.

namespace elastictrain::cli {

enum class Level : std::uint8_t { kDefault, kFile, kEnvironment, kFlag };

struct Origin {
  Level level = Level::kDefault;
  std::string where;
};

// One key=value of the command line. `source` is what the user typed, for messages.
struct Setting {
  std::string key;
  std::string text;
  std::string source;
};

struct ConfigInputs {
  std::string file_name;                 // for messages
  std::optional<std::string> file_text;  // none: run without a config file
  std::optional<RunConfig> recorded;     // of a resumed run; replaces the file
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<Setting> settings;
  std::vector<std::string> program;  // the arguments after "--"; replaces command or trainer
  bool starts_nothing = false;       // a program or trainer is not required
};

struct LoadedConfig {
  RunConfig config;
  std::map<std::string, Origin, std::less<>> origins;  // keys with a value other than their default

  // "config.toml:3:5", "--grace" or "default".
  std::string where(std::string_view key) const;
};

// The mistakes, one per line.
struct ConfigError {
  std::vector<std::string> messages;
  bool only_flags = true;  // every mistake is on the command line (exit status 64, else 78)
  bool no_input = false;   // the file cannot be read (exit status 66)
  std::string text() const;
};

// Checks everything except contradictions between keys, which check_config() finds.
std::variant<LoadedConfig, ConfigError> load_config(const ConfigInputs& inputs);

Result<std::string> read_config_file(const std::string& path);

// A sentence for each variable that no key has and that differs from one that a key has by a typing mistake.
std::vector<std::string> misspelt_variables(const std::vector<std::pair<std::string, std::string>>& environment);

// This process's environment as pairs.
std::vector<std::pair<std::string, std::string>> process_environment();

// A resolved configuration as one JSON object that reads back as the same one, for a run that may be resumed.
// Values at their default are omitted.
// Pure. Errors: returned as values that name the key.

std::string snapshot_of(const RunConfig& config);
Result<RunConfig> config_of_snapshot(const std::string& snapshot);

}  // namespace elastictrain::cli

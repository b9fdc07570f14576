// Purpose: the command line of `run` and of the commands that take its flags: the flags, and the word at which the
// program begins.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/commands/command.h"
#include "cli/config/load.h"

// Decides which word of a command line begins the program, so that `run -n 2 python3 train.py` needs no "--".
// Reads the file system and $PATH. Thread: any.

namespace elastictrain::cli {

// By its name, whether or not it is there.
bool is_script(const std::string& word);

// A program is a file that can be executed, a name found on $PATH, or a script (.py, .sh) whether or not it can be
// executed. Options, files that end in .toml, and other files that exist are none: those are configuration files.
bool begins_program(const std::string& word);

// The flags of `run` (and `check`): those of the schema, and the flags known from torchrun and mpirun that set
// several keys at once. Parsing only.

// Placeholder for the name in "--resume=" if the user gave none.
inline constexpr const char* kAnyRun = ".";

struct RunFlags {
  std::string config_file;
  bool dry_run = false;
  bool detach = false;
  bool resume = false;
  bool fresh = false;                  // --fresh
  std::string resume_name;             // empty: the name of the config, or the only run that can be resumed
  std::vector<Setting> settings;       // in the order of the table, --set last
  std::vector<std::string> set;        // KEY=VALUE
  std::vector<std::string> variables;  // -x VAR or VAR=value
  std::string sizes;                   // -n
  std::vector<std::string> restarts;   // --max-restarts
  bool torch = false;                  // --torch, which also sets a variable
  bool starts_nothing = false;         // a program or trainer is not required
  std::vector<std::string> typed;      // the whole command line, for reports
};

std::vector<Argument> run_arguments(const std::shared_ptr<RunFlags>& flags);

// "4" or "2:4" as settings of workers.min, start and max.
Result<std::vector<Setting>> settings_of_sizes(const std::string& text);

// "3", "crash:3", "hang:unlimited" or "infrastructure:5/10m" as settings of [failures]. Without a class: crashes. All
// classes share one window.
Result<std::vector<Setting>> settings_of_restarts(const std::string& text);

// "batch.per_worker=64", the value of --set, as a setting.
Result<Setting> setting_of(const std::string& word);

// The mistakes for standard error. Those of the command line alone are prefixed with the command; those of a file name
// their place themselves.
std::string error_text(const char* command, const ConfigError& error);
int exit_status_of(const ConfigError& error);

using Loaded = std::variant<LoadedConfig, ConfigError>;

// Merges all settings of the command line with `environment` into one checked configuration. `recorded` replaces the
// config file.
Loaded load_from_flags(const RunFlags& flags, const std::vector<std::string>& program,
                       std::vector<std::pair<std::string, std::string>> environment,
                       const std::optional<RunConfig>& recorded = std::nullopt);

}  // namespace elastictrain::cli

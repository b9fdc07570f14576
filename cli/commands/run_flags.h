// Purpose: the flags of `run` (and `check`): those of the schema, and the ones that torchrun and mpirun users bring
// along and that stand for several keys. Parsing only.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cli/config/load.h"

namespace elastictrain::cli {

struct RunFlags {
  std::string config_file;
  bool dry_run = false;
  std::vector<Setting> settings;       // in the order of the table, --set last
  std::vector<std::string> set;        // KEY=VALUE
  std::vector<std::string> variables;  // -x VAR or VAR=value
  std::string sizes;                   // -n
};

void add_run_flags(CLI::App& command, const std::shared_ptr<RunFlags>& flags);

// "4" or "2:4" as settings of workers.min, start and max.
Result<std::vector<Setting>> settings_of_sizes(const std::string& text);

// All settings of the command line, with `inputs` from the machine, as one checked configuration.
std::variant<LoadedConfig, ConfigError> load_from_flags(const RunFlags& flags, const std::vector<std::string>& program,
                                                        std::vector<std::pair<std::string, std::string>> environment);

}  // namespace elastictrain::cli

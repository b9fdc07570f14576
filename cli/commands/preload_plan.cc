#include "cli/commands/preload_plan.h"

#include <algorithm>
#include <optional>

#include "launcher/python_command.h"

namespace elastictrain::cli {
namespace {

// The part of the package that every program with torch imports next.
constexpr const char* kTorch = "torch";
constexpr const char* kTorchPackage = "elastictrain.torch";

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Error refused(const std::string& why) {
  return {ErrorCode::kInvalid, "workers.preload: " + why};
}

}  // namespace

bool is_unchanged_script(const RunConfig& config) {
  if (config.use_trainer) return false;
  const auto python = launcher::python_command(config.command);
  const bool by_runner =
      python && python->program.size() > 1 && python->program[0] == "-m" && python->program[1] == kTorchPackage;
  return by_runner || contains(config.environment.set, "ELASTICTRAIN_TORCH=1");
}

Result<std::vector<std::string>> plan_preload(const RunConfig& config, bool uses_mpi) {
  std::vector<std::string> modules = config.workers.preload;
  const auto python = config.use_trainer ? std::nullopt : launcher::python_command(config.command);
  if (contains(modules, "auto") || contains(modules, "none")) {
    if (modules.size() > 1) return refused("auto and none stand alone");
    const bool wants_torch = modules.front() == "auto" && python && is_unchanged_script(config);
    if (!wants_torch || uses_mpi) return std::vector<std::string>();
    modules = {kTorch};
  }
  if (modules.empty()) return modules;
  if (!python) return refused("the command must be a Python interpreter with a script or -m MODULE");
  if (uses_mpi) return refused("MPI starts the processes of its ranks itself, so none can be forked");
  if (contains(modules, kTorch) && !contains(modules, kTorchPackage)) modules.emplace_back(kTorchPackage);
  return modules;
}

}  // namespace elastictrain::cli

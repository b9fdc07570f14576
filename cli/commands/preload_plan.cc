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

// --torch, or the package's own runner.
bool is_unchanged_script(const RunConfig& config, const launcher::PythonCommand& python) {
  const auto& program = python.program;
  const bool by_runner = program.size() > 1 && program[0] == "-m" && program[1] == kTorchPackage;
  return by_runner || contains(config.environment.set, "ELASTICTRAIN_TORCH=1");
}

Error refused(const std::string& why) {
  return {ErrorCode::kInvalid, "workers.preload: " + why};
}

}  // namespace

Result<std::vector<std::string>> plan_preload(const RunConfig& config, bool uses_mpi) {
  std::vector<std::string> modules = config.workers.preload;
  const auto python = config.use_trainer ? std::nullopt : launcher::python_command(config.command);
  if (contains(modules, "auto") || contains(modules, "none")) {
    if (modules.size() > 1) return refused("auto and none stand alone");
    const bool wants_torch = modules.front() == "auto" && python && is_unchanged_script(config, *python);
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

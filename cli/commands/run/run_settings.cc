#include "cli/commands/run/run_settings.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "heuristics/registry/registry.h"
#include "launcher/python_command.h"

namespace elastictrain::cli {

// Each value was checked when it was read.
heuristics::Parameters policy_parameters(const PolicyConfig& config, const std::string& name) {
  const auto given = config.parameters.find(name);
  const heuristics::Parameters none;
  return heuristics::check_parameters(*heuristics::find_policy(name),
                                      given == config.parameters.end() ? none : given->second)
      .parameters;
}

heuristics::ConvergenceSettings convergence_settings(const ConvergenceConfig& config) {
  return {config.threshold, static_cast<std::uint32_t>(config.windows), static_cast<double>(config.window_samples)};
}

policy::RunnerSettings policy_settings(const PolicyConfig& config) {
  policy::RunnerSettings policy;
  policy.name = config.name;
  policy.parameters = policy_parameters(config, policy.name);
  for (const std::string& name : config.beside) policy.companions.push_back({name, policy_parameters(config, name)});
  if (const auto watching = config.parameters.find("stragglers"); watching != config.parameters.end()) {
    policy.stragglers = watching->second;
  }
  policy.interval_s = static_cast<double>(config.interval_ms) / 1e3;
  policy.seed = config.seed;
  policy.cool_down_s = static_cast<double>(config.cool_down_ms) / 1e3;
  policy.hysteresis = config.hysteresis;
  policy.outside = {config.library, config.argument, config.program, config.timeout_ms};
  policy.utility = {"", "", config.utility_program, config.timeout_ms, "policy.utility_program", "table"};
  return policy;
}

policy::ObserverSettings observer_settings(const RunConfig& config, const core::RunSettings& settings) {
  policy::ObserverSettings observer;
  observer.min_workers = settings.min_workers;
  observer.max_workers = settings.max_workers;
  observer.hosts_can_be_had = !config.hosts.expand.empty();
  observer.samples_total = static_cast<double>(config.policy.samples_total);
  observer.warm_up_steps = static_cast<std::uint32_t>(config.policy.warm_up_steps);
  observer.price_per_worker_hour = config.cost.price_per_worker_hour;
  for (const std::string& entry : config.cost.host_classes) {
    const std::size_t equals = entry.rfind('=');
    const std::string pattern = entry.substr(0, equals);
    observer.classes.push_back({pattern, pattern, std::strtod(entry.c_str() + equals + 1, nullptr)});
  }
  return observer;
}

namespace {

// The part of the package that every program with torch imports next.
constexpr const char* kTorch = "torch";
constexpr const char* kTorchPackage = "elastictrain.torch";

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

Error not_preloaded(const std::string& why) {
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
    if (modules.size() > 1) return not_preloaded("auto and none stand alone");
    const bool wants_torch = modules.front() == "auto" && python && is_unchanged_script(config);
    if (!wants_torch || uses_mpi) return std::vector<std::string>();
    modules = {kTorch};
  }
  if (modules.empty()) return modules;
  if (!python) return not_preloaded("the command must be a Python interpreter with a script or -m MODULE");
  if (uses_mpi) return not_preloaded("MPI starts the processes of its ranks itself, so none can be forked");
  if (contains(modules, kTorch) && !contains(modules, kTorchPackage)) modules.emplace_back(kTorchPackage);
  return modules;
}

}  // namespace elastictrain::cli

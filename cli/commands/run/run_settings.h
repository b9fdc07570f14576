// Purpose: settings of a run that follow from its configuration alone: of the deciding policy, and the Python
// modules that hosts import once. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/config/run_config.h"
#include "supervisor/core/pure/settings.h"
#include "supervisor/policy/runner_settings.h"
#include "supervisor/protocol/result.h"

// Makes the settings of the deciding policy from the user's configuration. Pure.

namespace elastictrain::cli {

// Parameters of the named policy: the user's values over the defaults.
heuristics::Parameters policy_parameters(const PolicyConfig& config, const std::string& name);

// Without the values that only a run knows (sizes, prices).
policy::RunnerSettings policy_settings(const PolicyConfig& config);

heuristics::ConvergenceSettings convergence_settings(const ConvergenceConfig& config);

policy::ObserverSettings observer_settings(const RunConfig& config, const core::RunSettings& settings);

// Chooses the Python modules that the hosts of a run import once for all of its workers (workers.preload).
// Pure.

// Errors: modules were asked for and the workers cannot be forked from a process that has imported them.
Result<std::vector<std::string>> plan_preload(const RunConfig& config, bool uses_mpi);

// A PyTorch script that changes nothing: by --torch, or by the package's own runner.
bool is_unchanged_script(const RunConfig& config);

}  // namespace elastictrain::cli

// Purpose: makes the settings of the deciding policy from the user's configuration. Pure.
#pragma once

#include "cli/config/run_config.h"
#include "supervisor/core/pure/settings.h"
#include "supervisor/policy/runner_settings.h"

namespace elastictrain::cli {

// Parameters of the named policy: the user's values over the defaults.
heuristics::Parameters policy_parameters(const PolicyConfig& config, const std::string& name);

// Without the values that only a run knows (sizes, prices).
policy::RunnerSettings policy_settings(const PolicyConfig& config);

heuristics::ConvergenceSettings convergence_settings(const ConvergenceConfig& config);

policy::ObserverSettings observer_settings(const RunConfig& config, const core::RunSettings& settings);

}  // namespace elastictrain::cli

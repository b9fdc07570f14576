// Purpose: from what the user configured to the policy that decides. Pure.
#pragma once

#include "cli/config/run_config.h"
#include "supervisor/core/settings.h"
#include "supervisor/policy/runner.h"

namespace elastictrain::cli {

// Of the policy of that name: what the user set over the standard values.
heuristics::Parameters policy_parameters(const PolicyConfig& config, const std::string& name);

// Without what only a run knows (sizes, prices).
policy::RunnerSettings policy_settings(const PolicyConfig& config);

policy::ObserverSettings observer_settings(const RunConfig& config, const core::RunSettings& settings);

}  // namespace elastictrain::cli

// Purpose: the list of policies by name. Pure.
#pragma once

#include <string>
#include <vector>

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

// In the order in which help shows them.
const std::vector<PolicySpec>& policies();
const PolicySpec* find_policy(const std::string& name);

}  // namespace elastictrain::heuristics

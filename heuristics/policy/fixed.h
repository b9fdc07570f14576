// Purpose: the policy of a run that keeps its size: only `elastictrain resize` and failures change it.
#pragma once

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

PolicySpec fixed_policy();

}  // namespace elastictrain::heuristics

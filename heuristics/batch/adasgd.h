// Purpose: the policy that chooses what workers exchange in a step (AdaSGD of KungFu, algorithms B6): averaged models
// at the beginning of training or with many workers, averaged gradients otherwise.
//
// Published, for comparison. It is no policy program because `plan` and the benchmarks replay it in their own time.
#pragma once

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

PolicySpec adasgd_policy();

}  // namespace elastictrain::heuristics

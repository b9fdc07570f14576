// Purpose: the policy that chooses what workers exchange in a step (AdaSGD of KungFu, algorithms B6): models that are
// averaged while training begins or while there are many workers, averaged gradients otherwise.
#pragma once

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

PolicySpec adasgd_policy();

}  // namespace elastictrain::heuristics

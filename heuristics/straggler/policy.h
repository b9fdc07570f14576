// Purpose: the policy "stragglers": finds slow workers and reports them, rebalances shares, or replaces them.
//
// It never changes the size, so it can be combined with a policy that does.
#pragma once

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

PolicySpec straggler_policy();

}  // namespace elastictrain::heuristics

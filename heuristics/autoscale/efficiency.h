// Purpose: the policies that find the most economical size and stay there. "efficiency" grows while the marginal
// efficiency exceeds a target. "cost" weighs a utility of finishing against prices. Both use one search (search.h) with
// their own objective (objective.h).
//
// Differences from Or et al. 2020 (policy "or"): sizes are doubled and the gaps are then narrowed, instead of using a
// fixed step. A verdict is given when noise allows it, after five steps if the difference is clear. A size is tried
// only if its possible gain until the end of the job exceeds the cost of trying it. If the steps change while its
// workers start and that no longer holds, it is given up. Once settled, only a change of the job's own behaviour or
// limits starts a new search.
#pragma once

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

PolicySpec efficiency_policy();
PolicySpec cost_policy();

}  // namespace elastictrain::heuristics

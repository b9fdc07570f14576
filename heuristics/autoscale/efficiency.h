// Purpose: the policies that find the size that pays and stay there. "efficiency" grows while the marginal efficiency
// exceeds a target; "cost" weighs a utility of finishing against prices. Both are one search (search.h) over their own
// objective (objective.h).
//
// What differs from Or et al. 2020 (policy "or"): sizes are doubled and gaps then narrowed, instead of a fixed step; a
// verdict is given when noise allows it, after five steps where the difference is plain; a size is tried only if what
// it may gain until the job ends exceeds what trying costs; once settled, only a change of the job's own behaviour or
// limits starts a new search.
#pragma once

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

PolicySpec efficiency_policy();
PolicySpec cost_policy();

}  // namespace elastictrain::heuristics

// Purpose: the policy "scavenger": measures a few sizes (and batches, if allowed), then takes the one that suits the
// goal (Scavenger, algorithms F; plan_curve.h describes the goals).
//
// The models are fitted once, when the search is over, and again when the limits change. After that a settled job is
// reconsidered periodically: it changes only if the goal gains by more than `tolerance`, or if a deadline or a budget
// would be missed. Without a known end of the job, time and cost are for one million samples, and a deadline or a
// budget cannot be judged.
#pragma once

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

// The code of the reason once the search is over and the size does not follow from it (`follow` = false).
extern const char* const kMeasured;

PolicySpec scavenger_policy();

}  // namespace elastictrain::heuristics

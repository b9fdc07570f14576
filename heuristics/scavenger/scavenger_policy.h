// Purpose: the policy "scavenger": measures a few sizes (and batches, if it may), then takes the one that suits the
// goal (Scavenger, algorithms F; plan_curve.h says what the goals mean).
//
// The models are fitted once, when the search is over, and again when what is allowed changes. After that a settled job
// is looked at now and then: it moves only where the goal gains by more than `tolerance`, or a deadline or a budget
// would be missed. Without a known end of the job, time and cost are those of a million samples, and a deadline or a
// budget cannot be judged.
#pragma once

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

// The code of the reason once the search is over and nothing else is to follow from it (`follow` = false).
extern const char* const kMeasured;

PolicySpec scavenger_policy();

}  // namespace elastictrain::heuristics

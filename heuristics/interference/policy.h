// Purpose: policy "interference" (KungFu 2020, algorithms B7, Fig. 5): from the fourth step on the workers vote. Once
// most of them find their communication disturbed, the job changes to a star rooted at rank 1, permanently.
#pragma once

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

PolicySpec interference_policy();

}  // namespace elastictrain::heuristics

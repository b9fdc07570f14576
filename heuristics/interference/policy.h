// Purpose: policy "interference" (KungFu 2020, algorithms B7, Fig. 5): from the fourth step on the workers vote; once
// most of them find their communication disturbed, the job goes over to a star rooted at rank 1, for good.
#pragma once

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

PolicySpec interference_policy();

}  // namespace elastictrain::heuristics

// Purpose: the policy "stragglers": finds slow workers and reports them, evens their shares out, or replaces them.
//
// It never changes the size, so it composes with a policy that does.
#pragma once

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

PolicySpec straggler_policy();

}  // namespace elastictrain::heuristics

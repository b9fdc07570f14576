// Purpose: which size to look at first after a job has changed in another way than its machines: the best one if
// computation and the rest of a step have changed at every size as they did at the settled one.
//
// Pure.
#pragma once

#include <cstdint>

#include "heuristics/autoscale/objective.h"
#include "heuristics/autoscale/search.h"
#include "heuristics/autoscale/search_state.h"
#include "heuristics/policy/view.h"

namespace elastictrain::heuristics {

// `state` still has the rates of before the change. 0: nothing is known.
std::uint32_t size_after_change(const JobView& job, const SearchLimits& limits, const Objective& value,
                                const SearchState& state);

}  // namespace elastictrain::heuristics

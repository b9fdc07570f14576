// Purpose: the sizes that the search may measure now, and the first one after a lasting change of the job. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "heuristics/autoscale/search.h"
#include "heuristics/autoscale/search_state.h"
#include "heuristics/policy/view.h"

// What the search for a size may do now, and what it knows of the sizes within: the numbers that next_probe()
// in search.h works with, from a view and what the search remembers.
//
// Pure. Times in seconds.

namespace elastictrain::heuristics {

SearchLimits search_limits(const SearchSettings& settings, const ClusterView& view, const JobView& job,
                           const SearchState& state);

// The sizes with enough steps, smoothed, by size.
std::vector<Measured> measured_sizes(const SearchState& state, const Objective& value, const SearchLimits& limits);

// Which size to look at first after a job has changed in another way than its machines: the best one if
// computation and the rest of a step have changed at every size as they did at the settled one.
//
// Pure.

// `state` still has the rates of before the change. 0: nothing is known.
std::uint32_t size_after_change(const JobView& job, const SearchLimits& limits, const Objective& value,
                                const SearchState& state);

}  // namespace elastictrain::heuristics

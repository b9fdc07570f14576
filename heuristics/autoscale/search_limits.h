// Purpose: what the search for a size may do now, and what it knows of the sizes within: the numbers that next_probe()
// in search.h works with, from a view and what the search remembers.
//
// Pure. Times in seconds.
#pragma once

#include <vector>

#include "heuristics/autoscale/objective.h"
#include "heuristics/autoscale/search.h"
#include "heuristics/autoscale/search_state.h"
#include "heuristics/policy/view.h"

namespace elastictrain::heuristics {

SearchLimits search_limits(const SearchSettings& settings, const ClusterView& view, const JobView& job,
                           const SearchState& state);

// The sizes with enough steps, smoothed, by size.
std::vector<Measured> measured_sizes(const SearchState& state, const Objective& value, const SearchLimits& limits);

}  // namespace elastictrain::heuristics

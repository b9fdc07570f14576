// Purpose: rates that were measured with noise, as a smooth curve through them: the efficiency does not jump from one
// pair of neighbours to the next, so sizes close to each other share what was measured of them.
//
// The posterior of a random walk of the slope of ln R over ln k (a smoothing spline), and of nothing in common where
// `cut_after` says so. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "heuristics/autoscale/throughput_table.h"

namespace elastictrain::heuristics {

struct NoisyRate {
  std::uint32_t workers = 0;
  LogRate rate;
};

// Sizes rise. Sizes up to `cut_after` and those above are two curves.
std::vector<LogRate> smoothed(const std::vector<NoisyRate>& rates, std::uint32_t cut_after);

}  // namespace elastictrain::heuristics

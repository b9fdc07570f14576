// Purpose: fits a smooth curve through noisy rates. The efficiency does not jump between pairs of neighbours, so sizes
// close to each other share their measurements.
//
// The posterior of a random walk of the slope of ln R over ln k (a smoothing spline). How far the slope walks is that
// of a smooth curve, or a multiple under which the measured rates are more likely (the marginal likelihood, as in
// Rasmussen and Williams 2006, 5.4.1): on some machines one more host makes a job much faster, and a peak that is
// measured well must not be drawn down to its neighbours. The sizes up to `cut_after` and those above are independent.
// Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "heuristics/autoscale/throughput_table.h"

namespace elastictrain::heuristics {

struct NoisyRate {
  std::uint32_t workers = 0;
  LogRate rate;
};

// Sizes increase. Sizes up to `cut_after` and those above are two curves.
std::vector<LogRate> smoothed(const std::vector<NoisyRate>& rates, std::uint32_t cut_after);

}  // namespace elastictrain::heuristics

// Purpose: policy "provisioning" (KungFu 2020, algorithms B7, Fig. 6): adds a worker every so many steps. It stops for
// good and removes the last worker when throughput is less than (1 + alpha/n) times that of one worker less. In terms
// of A3 this is d = 1 and S = alpha (n-1)/n.
//
// Published, for comparison. It is no policy program because `plan` and the benchmarks replay it in their own time.
#pragma once

#include <cstdint>

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

// Whether n workers are sufficiently faster than n-1.
bool worth_provisioning(std::uint32_t workers, double rate, double rate_of_one_less, double alpha);

PolicySpec provisioning_policy();

}  // namespace elastictrain::heuristics

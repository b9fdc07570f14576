// Purpose: the value of a size at a given throughput as one number, so that one search serves every rule.
//
// The number is -ln(loss), so a difference of 0.02 is 2 % of the loss in any unit. Pure.
//
// efficiency: growing pays while the marginal efficiency k R'(k) / R(k) exceeds the target S (algorithms A3 for small
// steps). At that point the slope of ln R(k) - S ln k changes its sign, so the rule minimises
//   time^(1-S) x (worker-seconds)^S
// for the same samples: S = 0 gives the shortest time, S = 1 the fewest worker-seconds. In this form it also compares
// sizes that are far apart, and gives the cost of a wrong size.
// cost: the loss of the rest of the job is the decrease of its utility until it ends plus the cost of its workers (A3,
// in remaining samples instead of batches, whose size may change).
#pragma once

#include <cstdint>
#include <functional>

#include "heuristics/cost/price.h"
#include "heuristics/cost/utility.h"

namespace elastictrain::heuristics {

// (workers, ln of samples per second) -> -ln(loss).
using Objective = std::function<double(std::uint32_t, double)>;

Objective efficiency_objective(double target);

// `elapsed_s` since the start of the job. `rest` in samples, above 0.
Objective cost_objective(Utility utility, Prices prices, double elapsed_s, double rest);

}  // namespace elastictrain::heuristics

#include "heuristics/autoscale/objective.h"

#include <algorithm>
#include <cmath>

namespace elastictrain::heuristics {

Objective efficiency_objective(double target) {
  return [target](std::uint32_t workers, double log_rate) { return log_rate - target * std::log(workers); };
}

Objective cost_objective(Utility utility, Prices prices, double elapsed_s, double rest) {
  static constexpr double kMin = 1e-12;  // of a size without cost
  return [utility = std::move(utility), prices = std::move(prices), elapsed_s, rest](std::uint32_t workers,
                                                                                     double log_rate) {
    const double seconds = rest * std::exp(-log_rate);
    const double falls = utility(elapsed_s) - utility(elapsed_s + seconds);
    return -std::log(std::max(falls + seconds * prices.per_s(workers), kMin));
  };
}

}  // namespace elastictrain::heuristics

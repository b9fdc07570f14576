// Purpose: which size to measure next, given what was measured, and when there is none left that is worth it.
//
// Between and beyond the measured sizes throughput is taken to go on as smooth saturation would make it (t = a/k + b
// for a step of one batch), with an uncertainty that is small at first and grows with what was surprising so far: real
// curves also have cliffs (a second host, a slower link) behind which they rise again. A size is measured when its
// expected improvement over the best one, for the rest of the job, exceeds what trying it costs.
//
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heuristics/autoscale/objective.h"

namespace elastictrain::heuristics {

struct Measured {
  std::uint32_t workers = 0;
  double log_rate = 0;
  double value = 0;      // of the objective
  double deviation = 0;  // of both
};

struct SearchLimits {
  std::uint32_t least = 1;  // workers
  std::uint32_t most = 1;
  std::uint32_t host_slots = 1;  // of the largest host
  double tolerance = 0.02;       // expected improvements in value below a quarter of this are not looked for
  double horizon_s = 3600;       // for which an improvement lasts
  double probe_s = 30;           // that trying a size takes
  double noise = 0.03;           // of a value after that, as a standard deviation
};

struct Probe {
  std::uint32_t workers = 0;
  double improvement = 0;  // in value, expected
};

std::size_t best_of(const std::vector<Measured>& measured);
// The smallest size that is no worse than the best by more than `margin`.
std::size_t smallest_good(const std::vector<Measured>& measured, double margin);

// `measured` is not empty, sizes rise and lie within the limits. Empty: nothing more is worth measuring.
std::optional<Probe> next_probe(const std::vector<Measured>& measured, const Objective& objective,
                                const SearchLimits& limits);

// What smooth saturation makes of the marginal efficiency over `next_ratio` upwards, after `efficiency` over `ratio`.
double efficiency_beyond(double efficiency, double ratio, double next_ratio);
// The same downwards: over the `ratio_below` that ends where the known stretch begins.
double efficiency_below(double efficiency, double ratio, double ratio_below);

// E[max(0, X)] of a normal X.
double expected_improvement(double mean, double deviation);

}  // namespace elastictrain::heuristics

// Purpose: chooses which size to measure next from the measurements so far, and tells when none is worth it.
//
// Between and beyond the measured sizes throughput is expected to follow smooth saturation (t = a/k + b for a step of
// one batch), with an uncertainty that is small at first and grows with the surprises so far: real curves also have
// cliffs (a second host, a slower link) after which they rise again. Beyond the smallest and the largest size no more
// is expected than the parts of their steps allow (parts_estimate.h). A size is measured if its expected improvement
// over the best one, for the rest of the job, exceeds the cost of trying it. In a long job the uncertainty is that of
// the most rugged curves measured on real systems: a size that is missed there costs more than all that are tried.
//
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heuristics/autoscale/objective.h"
#include "heuristics/autoscale/parts_estimate.h"
#include "heuristics/batch_plan.h"

namespace elastictrain::heuristics {

inline constexpr double kMaxSteps = 150;  // at a size, of a usual job

struct Measured {
  std::uint32_t workers = 0;
  double log_rate = 0;
  double value = 0;      // of the objective
  double deviation = 0;  // of both
  std::optional<SizeParts> parts = {};
};

struct SearchLimits {
  BatchRule batch = {};
  std::uint32_t min = 1;  // workers
  std::uint32_t max = 1;
  std::uint32_t host_slots = 1;  // of the largest host
  double least = 0.005;          // expected improvements in value below this are ignored
  double horizon_s = 3600;       // for which an improvement lasts
  double probe_s = 30;           // duration of trying a size
  double noise = 0.03;           // standard deviation of a value measured for that time
  double max_steps = kMaxSteps;  // after these the better mean decides
  bool may_probe = true;         // the search has changes left
  bool is_long = false;          // many times as long as trying a size
  bool in_vain = false;          // the last probes brought nothing, and were enough of all sizes
};

struct Probe {
  std::uint32_t workers = 0;
  double improvement = 0;  // in value, expected
};

std::size_t best_of(const std::vector<Measured>& measured);
// The smallest size that is worse than the best by at most `margin`.
std::size_t smallest_good(const std::vector<Measured>& measured, double margin);

// `measured` is not empty; its sizes increase and are within the limits. Returns nothing if no measurement is worth it.
std::optional<Probe> next_probe(const std::vector<Measured>& measured, const Objective& objective,
                                const SearchLimits& limits);

// The marginal efficiency that smooth saturation predicts over `next_ratio` upwards, after `efficiency` over `ratio`.
double efficiency_beyond(double efficiency, double ratio, double next_ratio);
// The same downwards: over the `ratio_below` that ends where the known interval begins.
double efficiency_below(double efficiency, double ratio, double ratio_below);

// E[max(0, X)] of a normal X.
double expected_improvement(double mean, double deviation);

}  // namespace elastictrain::heuristics

// Purpose: the search for a size: its objective, the estimate of unmeasured sizes, and the size to measure next.
// Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "heuristics/batch_plan.h"
#include "heuristics/cost/cost.h"

// The value of a size at a given throughput as one number, so that one search serves every rule.
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

namespace elastictrain::heuristics {

// (workers, ln of samples per second) -> -ln(loss).
using Objective = std::function<double(std::uint32_t, double)>;

Objective efficiency_objective(double target);

// `elapsed_s` since the start of the job. `rest` in samples, above 0.
Objective cost_objective(Utility utility, Prices prices, double elapsed_s, double rest);

// What the parts of the steps at one size say about other sizes.
//
// A step at k workers of n(k) samples each takes t(k) = c n(k) + r(k): c is the computation of one sample, which is the
// same at every size as long as workers do not disturb each other, and r is the rest (communication and waiting).
// Fewer workers do not lengthen r, more do not shorten it. So the marginal efficiency from k to m workers,
//   ln(m n(m) / t(m) / (k n(k) / t(k))) / ln(m / k),
// is at most what r gives if it stays what it is at one of them.
//
// Pure. Rates as natural logarithms of samples per second.

// A size with known parts.
struct SizeParts {
  double sample_s = 0;  // c
  double rest_s = 0;    // r
};

// Of a size at that rate, at which r is that share of a step.
SizeParts parts_of(const BatchRule& batch, std::uint32_t workers, double log_rate, double rest_share);

// By how much the logarithm of the rate of that size exceeds what it is with r of `known`, if r is 0.
double rest_gain(const BatchRule& batch, const SizeParts& known, std::uint32_t workers);

// The upper bound on the marginal efficiency from `from` to `to` workers, if r stays that of `known`.
double efficiency_bound(const BatchRule& batch, const SizeParts& known, std::uint32_t from, std::uint32_t to);

// Chooses which size to measure next from the measurements so far, and tells when none is worth it.
//
// Between and beyond the measured sizes throughput is expected to follow smooth saturation (t = a/k + b for a step of
// one batch), with an uncertainty that is small at first and grows with the surprises so far: real curves also have
// cliffs (a second host, a slower link) after which they rise again. Beyond the smallest and the largest size no more
// is expected than the parts of their steps allow. A size is measured if its expected improvement
// over the best one, for the rest of the job, exceeds the cost of trying it. In a long job the uncertainty is that of
// the most rugged curves measured on real systems: a size that is missed there costs more than all that are tried.
//
// Pure.

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

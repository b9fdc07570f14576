// Purpose: what the parts of the steps at one size say about other sizes.
//
// A step at k workers of n(k) samples each takes t(k) = c n(k) + r(k): c is the computation of one sample, which is the
// same at every size as long as workers do not disturb each other, and r is the rest (communication and waiting).
// Fewer workers do not lengthen r, more do not shorten it. So the marginal efficiency from k to m workers,
//   ln(m n(m) / t(m) / (k n(k) / t(k))) / ln(m / k),
// is at most what r gives if it stays what it is at one of them.
//
// Pure. Rates as natural logarithms of samples per second.
#pragma once

#include <cstdint>

#include "heuristics/batch_plan.h"

namespace elastictrain::heuristics {

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

}  // namespace elastictrain::heuristics

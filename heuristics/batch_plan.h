// Purpose: samples per worker and factor of the learning rate at a given number of workers. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// The number of samples that each worker takes per step at a given number of workers. The batch of one worker
// stays fixed and the global batch grows with the workers, up to the user's limit.
//
// Pure: no clock, no I/O, no state.

namespace elastictrain::heuristics {

enum class AtLimit : std::uint8_t { kStop, kSplit };  // effect of growing at max_global

struct BatchRule {
  std::uint32_t per_worker = 32;
  std::uint64_t max_global = 0;  // 0: no limit
  AtLimit at_limit = AtLimit::kSplit;
  std::uint32_t max_share = 0;  // of one worker with uneven shares: what its memory holds; 0: no limit
};

struct BatchPlan {
  std::uint64_t global = 0;
  std::vector<std::uint32_t> shares;  // index = rank; their sum is `global`
};

// The largest number of workers that the rule has work for, at least 1. Without a limit the largest representable
// number.
std::uint32_t max_workers(const BatchRule& rule);

// The global batch of all workers.
std::uint64_t global_batch(const BatchRule& rule, std::size_t workers);

// Shares differ by at most one sample; lower ranks take the larger ones.
BatchPlan plan_batch(const BatchRule& rule, std::uint32_t workers);

// The same global batch, shared so that all workers arrive at the collective together: in proportion to `speeds` (one
// per rank, in any common unit), at least one sample each. Samples left over by rounding go to the worker that would
// finish them first, so no other integer shares let the last worker finish sooner. Speeds that are not positive, or a
// wrong number of them, give equal shares. `max_share` is kept unless it cannot hold the batch.
BatchPlan plan_batch(const BatchRule& rule, const std::vector<double>& speeds);

// As plan_batch, with a given global batch. 0 for max_share: no limit.
std::vector<std::uint32_t> share_out(std::uint64_t global, const std::vector<double>& speeds, std::uint32_t max_share);

// The factor of the user's learning rate when the global batch differs from the one that the rate was chosen
// for.
//
// Pure: no clock, no I/O, no state.

enum class LearningRateRule : std::uint8_t { kNone, kLinear, kSqrt, kAdaScale };

// The progress of one step of `batch` in steps of `base_batch` (AdaScale; AdaptDL, algorithms G): with S = batch / base
// it is (var + sqr) / (var / S + sqr), var being the noise of a gradient of base_batch samples. In terms of the noise
// scale:
// (noise_scale / base + 1) / (noise_scale / batch + 1). Between 1 (no noise) and S (only noise).
double adascale_gain(double noise_scale, double batch, double base_batch);

// kNone: 1. kLinear: batch / base. kSqrt: its square root. kAdaScale: the gain above; 1 while the noise scale is
// unknown (0), so a larger batch is no risk before it has been measured. An unknown (zero) batch gives 1.
double learning_rate_factor(LearningRateRule rule, std::uint64_t batch, std::uint64_t base_batch,
                            double noise_scale = 0);

}  // namespace elastictrain::heuristics

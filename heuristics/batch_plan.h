// Purpose: the number of samples that each worker takes per step at a given number of workers. The batch of one worker
// stays fixed and the global batch grows with the workers, up to the user's limit.
//
// Pure: no clock, no I/O, no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

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

}  // namespace elastictrain::heuristics

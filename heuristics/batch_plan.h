// Purpose: how many samples each worker takes per step at a given number of workers. The batch of one worker stays
// fixed and the global batch grows with the workers, up to the user's limit.
//
// Pure: no clock, no I/O, no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace elastictrain::heuristics {

enum class AtLimit : std::uint8_t { kStop, kSplit };  // what growing does at max_global

struct BatchRule {
  std::uint32_t per_worker = 32;
  std::uint64_t max_global = 0;  // 0: no limit
  AtLimit at_limit = AtLimit::kSplit;
  std::uint32_t max_share = 0;  // of one worker when shares are uneven: what its memory holds; 0: no limit
};

struct BatchPlan {
  std::uint64_t global = 0;
  std::vector<std::uint32_t> shares;  // index = rank; their sum is `global`
};

// The most workers that the rule has work for, at least 1; no limit gives the largest number there is.
std::uint32_t most_workers(const BatchRule& rule);

// Of all workers together.
std::uint64_t global_batch(const BatchRule& rule, std::size_t workers);

// Shares differ by at most one sample; the lower ranks take the larger ones.
BatchPlan plan_batch(const BatchRule& rule, std::uint32_t workers);

// The same global batch, shared out so that all arrive at the collective together: in proportion to `speeds` (one for
// each rank, in any common unit), at least one sample each. What is left over by rounding goes to whoever is done with
// it first, so no other whole shares let the last worker finish sooner. Speeds that are no positive numbers, or of
// another count, give equal shares; `max_share` holds unless it cannot hold the batch.
BatchPlan plan_batch(const BatchRule& rule, const std::vector<double>& speeds);

// As plan_batch does it with a global batch that is given; 0 for max_share: no limit.
std::vector<std::uint32_t> share_out(std::uint64_t global, const std::vector<double>& speeds, std::uint32_t max_share);

}  // namespace elastictrain::heuristics

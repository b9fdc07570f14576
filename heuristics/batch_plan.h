// Purpose: how many samples each worker takes per step at a given number of workers. The batch of one worker stays
// fixed and the global batch grows with the workers, up to the user's limit.
//
// Pure: no clock, no I/O, no state.
#pragma once

#include <cstdint>
#include <vector>

namespace elastictrain::heuristics {

enum class AtLimit : std::uint8_t { kStop, kSplit };  // what growing does at max_global

struct BatchRule {
  std::uint32_t per_worker = 32;
  std::uint64_t max_global = 0;  // 0: no limit
  AtLimit at_limit = AtLimit::kSplit;
};

struct BatchPlan {
  std::uint64_t global = 0;
  std::vector<std::uint32_t> shares;  // index = rank; their sum is `global`
};

// The most workers that the rule has work for, at least 1; no limit gives the largest number there is.
std::uint32_t most_workers(const BatchRule& rule);

// Shares differ by at most one sample; the lower ranks take the larger ones.
BatchPlan plan_batch(const BatchRule& rule, std::uint32_t workers);

}  // namespace elastictrain::heuristics

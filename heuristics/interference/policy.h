// Purpose: policy "interference" (KungFu 2020, algorithms B1 and B7): workers vote on disturbed communication, and
// the job changes to a star.
//
// Published, for comparison. It is no policy program because `plan` and the benchmarks replay it in their own time.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "heuristics/policy/policy.h"
#include "heuristics/policy/view.h"

// Detects other traffic that disturbs the workers' communication (KungFu 2020, algorithms B1): a worker's
// first throughput is its reference, it votes when it falls below 0.8 of it, and more than half of the votes decide.
//
// Pure values. Throughputs in any common unit.

namespace elastictrain::heuristics {

// Worker -> throughput of its communication.
using Throughputs = std::map<std::uint64_t, double>;

// For the workers that the view has figures of: one step's data over the time of its exchange. The time that a worker
// waits for a slower one is excluded, or a straggler would look like a busy network.
Throughputs communication_throughputs(std::span<const WorkerView> members);

struct Vote {
  std::uint32_t votes = 0;
  std::uint32_t voters = 0;  // workers that have a reference
  bool disturbed() const { return 2 * votes > voters; }
};
Vote vote_on_interference(const Throughputs& now, const Throughputs& reference, double below);

// Policy "interference" (KungFu 2020, algorithms B7, Fig. 5): from the fourth step on the workers vote. Once
// most of them find their communication disturbed, the job changes to a star rooted at rank 1, permanently.

PolicySpec interference_policy();

}  // namespace elastictrain::heuristics

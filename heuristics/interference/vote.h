// Purpose: detects other traffic that disturbs the workers' communication (KungFu 2020, algorithms B1): a worker's
// first throughput is its reference, it votes when it falls below 0.8 of it, and more than half of the votes decide.
//
// Pure values. Throughputs in any common unit.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "heuristics/policy/view.h"

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

}  // namespace elastictrain::heuristics

// Purpose: the tree of least total latency over all ranks, for programs that measure and choose their own topology.
// Pure.
//
// Prim's algorithm from rank 0, as KungFu's global_minimum_spanning_tree (released code), on real numbers. O(n²).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace elastictrain::comm {

struct TreeEdge {
  std::uint32_t from = 0;  // in the tree before `to`
  std::uint32_t to = 0;
  bool operator==(const TreeEdge&) const = default;
};

// `latencies`: `ranks` rows of `ranks`, in any common unit; row i holds what rank i measured. Infinite or negative: not
// measured. An edge weighs the mean of its two directions, or the one that is known. Of equal edges that to the lowest
// rank is taken, from the lowest. Fewer than ranks-1 edges: what was measured does not connect all ranks.
std::vector<TreeEdge> minimum_spanning_tree(std::span<const double> latencies, std::size_t ranks);

// The edges as fathers, rank 0 the root: what BuildSpec::fathers takes. Empty when they do not connect all ranks.
std::vector<std::uint32_t> fathers_of(std::span<const TreeEdge> edges, std::size_t ranks);

}  // namespace elastictrain::comm

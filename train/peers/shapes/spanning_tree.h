// Purpose: the tree of minimum total latency over all ranks, for programs that measure and choose their own topology.
// Pure.
//
// Prim's algorithm from rank 0, as KungFu's global_minimum_spanning_tree (released code), on real numbers. O(n²).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace elastictrain::peers {

struct TreeEdge {
  std::uint32_t from = 0;  // in the tree before `to`
  std::uint32_t to = 0;
  bool operator==(const TreeEdge&) const = default;
};

// `latencies`: `ranks` rows of `ranks` entries, in any common unit; row i holds the measurements of rank i. Infinite or
// negative: not measured. The weight of an edge is the mean of its two directions, or the one that is known. Among
// equal edges the one to the lowest rank is chosen, then the one from the lowest. Fewer than ranks-1 edges: the
// measured edges do not connect all ranks.
std::vector<TreeEdge> minimum_spanning_tree(std::span<const double> latencies, std::size_t ranks);

// The edges as parents, with rank 0 as the root, in the form of BuildSpec::parents. Empty if they do not connect all
// ranks.
std::vector<std::uint32_t> parents_of(std::span<const TreeEdge> edges, std::size_t ranks);

}  // namespace elastictrain::peers

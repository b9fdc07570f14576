// Purpose: the trees along which the ranks of a generation sum and spread. Pure: hosts in, parents out.
//
// A graph is a pair of rooted trees over all ranks: partial sums move up `reduce` to its root, and the sum moves down
// `spread` from the same root. A topology is one graph, or several that each carry a part of the data. Shapes follow
// KungFu (Mai et al., OSDI 2020, section 4.3, and its released code); if it names one tree, the other is its reverse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "supervisor/protocol/names.h"

namespace elastictrain::peers {

using protocol::Parents;
using Ranks = std::vector<std::uint32_t>;

struct ReductionGraph {
  Parents reduce;
  Parents spread;
};

// The shape of a topology over ranks 0..n-1, which run on `hosts` in the order of comm::Layout.
struct GraphShape {
  protocol::Topology topology = protocol::Topology::kAuto;
  std::vector<Ranks> hosts;
  Parents parents;  // an explicit tree that replaces the topology's; empty: none. See protocol::check_tree().
  bool has_graphs() const { return topology != protocol::Topology::kAuto || !parents.empty(); }
};
// 0 if the topology has no graphs.
std::size_t graph_count(const GraphShape& shape);
// Built one at a time: all graphs of a ring together would take memory quadratic in its length.
ReductionGraph graph_at(const GraphShape& shape, std::size_t index);

// Whether its trees first sum on each host, at its first rank. Shared memory may do that part.
bool sums_on_hosts_first(const GraphShape& shape);

// The part of one rank in a graph.
struct LocalEdges {
  Ranks reduce_from;  // ascending: partial sums are added in this order, the rank's own value first
  std::optional<std::uint32_t> reduce_to;
  std::optional<std::uint32_t> spread_from;
  Ranks spread_to;
};
LocalEdges edges_of(const ReductionGraph& graph, std::uint32_t rank);

// For each other rank the neighbour of `rank` on the path to it; `rank` itself for `rank`.
Ranks ways_to_all(const Parents& parents, std::uint32_t rank);

// The number of trees that an operation of this size uses (the first ones of `graphs`), and the number of chunks: a
// multiple of the number of trees, so that every tree carries an equal part, with about 1 MiB each. Chunk c uses tree c
// modulo the number of trees.
struct ChunkPlan {
  std::size_t graphs = 1;
  std::size_t chunks = 1;
};
ChunkPlan plan_chunks(std::size_t bytes, std::size_t graphs);

}  // namespace elastictrain::peers

// Purpose: along which trees the ranks of a generation sum and spread. Pure: hosts in, fathers out.
//
// A graph is a pair of rooted trees over all ranks: partial sums climb `reduce` to its root, the sum descends `spread`
// from the same root. A topology is one graph, or several that carry a part of the data each. Shapes as KungFu defines
// them (Mai et al., OSDI 2020, section 4.3, and its released code): where it names one tree, the other is its reverse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "supervisor/protocol/topology_choice.h"
#include "train/comm/topology.h"

namespace elastictrain::comm {

using protocol::Fathers;

struct ReductionGraph {
  Fathers reduce;
  Fathers spread;
};

// The shape of a topology over ranks 0..n-1, which live on `hosts` as comm::Layout orders them.
struct GraphShape {
  protocol::Topology topology = protocol::Topology::kAuto;
  std::vector<Ranks> hosts;
  Fathers fathers;  // an explicit tree in place of the topology's own; empty: none. See protocol::check_tree().
  bool has_graphs() const { return topology != protocol::Topology::kAuto || !fathers.empty(); }
};
// 0 where there is no graph.
std::size_t graph_count(const GraphShape& shape);
// Made one at a time: all of a ring's together would take the square of its length.
ReductionGraph graph_at(const GraphShape& shape, std::size_t index);

// Whether its trees first sum on each host, at its first rank: shared memory may do that part.
bool sums_on_hosts_first(const GraphShape& shape);

// What one rank has to do with a graph.
struct LocalEdges {
  Ranks reduce_from;  // ascending: partial sums are added in this order, the rank's own value first
  std::optional<std::uint32_t> reduce_to;
  std::optional<std::uint32_t> spread_from;
  Ranks spread_to;
};
LocalEdges edges_of(const ReductionGraph& graph, std::uint32_t rank);

// For each other rank the neighbour of `rank` in the tree that leads to it; itself for `rank`.
Ranks ways_to_all(const Fathers& fathers, std::uint32_t rank);

// How many of `graphs` trees an operation of this size uses (the first of them), and into how many chunks it is cut:
// a multiple of that number, so that every tree carries an equal part, and about 1 MiB each. Chunk c goes along tree
// c modulo the number of trees.
struct ChunkPlan {
  std::size_t graphs = 1;
  std::size_t chunks = 1;
};
ChunkPlan plan_chunks(std::size_t bytes, std::size_t graphs);

}  // namespace elastictrain::comm

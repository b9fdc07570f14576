#include "train/peers/shapes/reduction_graph.h"

#include <algorithm>

namespace elastictrain::peers {
namespace {

using protocol::Topology;

constexpr std::size_t kChunkBytes = 1 << 20;
// Smaller parts cost more in messages than they save.
constexpr std::size_t kMinPartBytes = 32 << 10;

std::size_t count_ranks(const std::vector<Ranks>& hosts) {
  std::size_t count = 0;
  for (const auto& host : hosts) count += host.size();
  return count;
}

Ranks masters_of(const std::vector<Ranks>& hosts) {
  Ranks masters;
  for (const auto& host : hosts) masters.push_back(host.front());
  return masters;
}

ReductionGraph both_ways(Parents parents) {
  return {parents, parents};
}

Parents star(std::size_t size, std::uint32_t root) {
  return Parents(size, root);
}

Parents stars_on_hosts(const std::vector<Ranks>& hosts) {
  Parents parents(count_ranks(hosts));
  for (const auto& host : hosts) {
    for (const auto rank : host) parents[rank] = host.front();
  }
  return parents;
}

Parents star_over_masters(const std::vector<Ranks>& hosts) {
  auto parents = stars_on_hosts(hosts);
  for (const auto master : masters_of(hosts)) parents[master] = hosts.front().front();
  return parents;
}

// `order`: the ranks by their position in the heap.
void put_binary_tree(Parents& parents, const Ranks& order) {
  for (std::size_t place = 0; place < order.size(); ++place) {
    parents[order[place]] = order[place == 0 ? 0 : (place - 1) / 2];
  }
}

Parents binary_tree(std::size_t size) {
  Ranks order(size);
  for (std::uint32_t rank = 0; rank < size; ++rank) order[rank] = rank;
  Parents parents(size);
  put_binary_tree(parents, order);
  return parents;
}

Parents binary_tree_over_masters(const std::vector<Ranks>& hosts, std::size_t rotation) {
  auto parents = stars_on_hosts(hosts);
  auto masters = masters_of(hosts);
  std::rotate(masters.begin(), masters.begin() + static_cast<std::ptrdiff_t>(rotation), masters.end());
  put_binary_tree(parents, masters);
  return parents;
}

// The sum moves up root+1 -> root+2 -> … -> root and down root -> root+1 -> … -> root-1: always to the next rank.
ReductionGraph chain_around(std::size_t size, std::uint32_t root) {
  ReductionGraph graph{Parents(size), Parents(size)};
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    graph.reduce[rank] = rank == root ? root : static_cast<std::uint32_t>((rank + 1) % size);
    graph.spread[rank] = rank == root ? root : static_cast<std::uint32_t>((rank + size - 1) % size);
  }
  return graph;
}

Ranks children_of(const Parents& parents, std::uint32_t rank) {
  Ranks children;
  for (std::uint32_t other = 0; other < parents.size(); ++other) {
    if (other != rank && parents[other] == rank) children.push_back(other);
  }
  return children;
}

std::optional<std::uint32_t> parent_of(const Parents& parents, std::uint32_t rank) {
  if (parents[rank] == rank) return std::nullopt;
  return parents[rank];
}

}  // namespace

std::size_t graph_count(const GraphShape& shape) {
  if (!shape.parents.empty()) return 1;
  switch (shape.topology) {
    case Topology::kAuto:
      return 0;
    case Topology::kRing:
    case Topology::kClique:
      return count_ranks(shape.hosts);
    case Topology::kMultiStar:
    case Topology::kMultiBinaryTreeStar:
      return shape.hosts.size();
    default:
      return 1;
  }
}

ReductionGraph graph_at(const GraphShape& shape, std::size_t index) {
  const std::size_t size = count_ranks(shape.hosts);
  const auto root = static_cast<std::uint32_t>(index);
  if (!shape.parents.empty()) return both_ways(shape.parents);
  switch (shape.topology) {
    case Topology::kAuto:
      break;
    case Topology::kStar:
    case Topology::kClique:
      return both_ways(star(size, root));
    case Topology::kRing:
      return chain_around(size, root);
    case Topology::kTree:
      return both_ways(star_over_masters(shape.hosts));
    case Topology::kBinaryTree:
      return both_ways(binary_tree(size));
    case Topology::kBinaryTreeStar:
    case Topology::kMultiBinaryTreeStar:
      return both_ways(binary_tree_over_masters(shape.hosts, index));
    case Topology::kMultiStar:
      return both_ways(star(size, shape.hosts[index].front()));
  }
  panic("the automatic topology has no graphs");
}

bool sums_on_hosts_first(const GraphShape& shape) {
  if (!shape.parents.empty()) return false;
  return shape.topology == Topology::kTree || shape.topology == Topology::kBinaryTreeStar ||
         shape.topology == Topology::kMultiBinaryTreeStar;
}

LocalEdges edges_of(const ReductionGraph& graph, std::uint32_t rank) {
  return {children_of(graph.reduce, rank), parent_of(graph.reduce, rank), parent_of(graph.spread, rank),
          children_of(graph.spread, rank)};
}

Ranks ways_to_all(const Parents& parents, std::uint32_t rank) {
  Ranks ways(parents.size());
  for (std::uint32_t target = 0; target < parents.size(); ++target) {
    std::uint32_t below = target;
    std::uint32_t at = target;
    while (at != rank && parents[at] != at) {
      below = at;
      at = parents[at];
    }
    const bool in_subtree = at == rank;
    ways[target] = in_subtree ? below : parents[rank];
  }
  return ways;
}

ChunkPlan plan_chunks(std::size_t bytes, std::size_t graphs) {
  ChunkPlan plan;
  plan.graphs = std::clamp<std::size_t>(bytes / kMinPartBytes, 1, graphs);
  const std::size_t wanted = (bytes + kChunkBytes - 1) / kChunkBytes;
  plan.chunks = std::max<std::size_t>(1, (wanted + plan.graphs - 1) / plan.graphs) * plan.graphs;
  return plan;
}

}  // namespace elastictrain::peers

#include "train/peers/shapes/spanning_tree.h"

#include <cmath>
#include <limits>

namespace elastictrain::peers {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

double weight(std::span<const double> latencies, std::size_t ranks, std::size_t a, std::size_t b) {
  const double there = latencies[a * ranks + b];
  const double back = latencies[b * ranks + a];
  const bool knows_there = std::isfinite(there) && there >= 0;
  const bool knows_back = std::isfinite(back) && back >= 0;
  if (knows_there && knows_back) return (there + back) / 2;
  if (knows_there) return there;
  return knows_back ? back : kNone;
}

}  // namespace

std::vector<TreeEdge> minimum_spanning_tree(std::span<const double> latencies, std::size_t ranks) {
  std::vector<TreeEdge> edges;
  if (ranks == 0) return edges;
  struct Nearest {
    double weight = kNone;
    std::uint32_t from = 0;
    bool in_tree = false;
  };
  std::vector<Nearest> nearest(ranks);
  std::uint32_t added = 0;
  for (;;) {
    nearest[added].in_tree = true;
    std::uint32_t next = added;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      auto& one = nearest[rank];
      if (one.in_tree) continue;
      const double through = weight(latencies, ranks, added, rank);
      const bool closer = through < one.weight || (through == one.weight && through < kNone && added < one.from);
      if (closer) one = {through, added, false};
      if (one.weight < kNone && (next == added || one.weight < nearest[next].weight)) next = rank;
    }
    if (next == added) return edges;
    edges.push_back({nearest[next].from, next});
    added = next;
  }
}

std::vector<std::uint32_t> parents_of(std::span<const TreeEdge> edges, std::size_t ranks) {
  if (edges.size() + 1 != ranks) return {};
  std::vector<std::uint32_t> parents(ranks, 0);
  for (const auto& edge : edges) parents[edge.to] = edge.from;
  return parents;
}

}  // namespace elastictrain::peers

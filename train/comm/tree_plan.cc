#include "train/comm/tree_plan.h"

#include <algorithm>
#include <set>

namespace elastictrain::comm {
namespace {

std::vector<Ranks> hosts_of_one(std::size_t count) {
  std::vector<Ranks> hosts;
  for (std::uint32_t i = 0; i < count; ++i) hosts.push_back({i});
  return hosts;
}

TreePlan plan_for(const peers::GraphShape& shape, Ranks members, std::size_t position) {
  TreePlan plan;
  plan.members = std::move(members);
  plan.position = position;
  const auto self = static_cast<std::uint32_t>(position);
  for (std::size_t i = 0; i < graph_count(shape); ++i) plan.graphs.push_back(edges_of(graph_at(shape, i), self));
  plan.ways = peers::ways_to_all(graph_at(shape, 0).spread, self);
  return plan;
}

void add_edges(std::set<std::uint32_t>& found, const peers::LocalEdges& edges) {
  found.insert(edges.reduce_from.begin(), edges.reduce_from.end());
  found.insert(edges.spread_to.begin(), edges.spread_to.end());
  if (edges.reduce_to) found.insert(*edges.reduce_to);
  if (edges.spread_from) found.insert(*edges.spread_from);
}

}  // namespace

Ranks TreePlan::neighbours() const {
  std::set<std::uint32_t> found;
  for (const auto& edges : graphs) add_edges(found, edges);
  return {found.begin(), found.end()};
}

Ranks TreePlan::first_neighbours() const {
  const std::set<std::uint32_t> found(ways.begin(), ways.end());
  Ranks others(found.begin(), found.end());
  std::erase(others, static_cast<std::uint32_t>(position));
  return others;
}

std::optional<TreeLayout> make_tree_layout(protocol::Topology topology, const Parents& parents, const Layout& layout,
                                           std::uint32_t rank) {
  peers::GraphShape shape{topology, layout.hosts, parents};
  std::size_t size = 0;
  for (const auto& host : layout.hosts) size += host.size();
  if (!shape.has_graphs() || size == 1) return std::nullopt;
  if (!peers::sums_on_hosts_first(shape)) {
    Ranks all(size);
    for (std::uint32_t i = 0; i < size; ++i) all[i] = i;
    return TreeLayout{true, plan_for(shape, std::move(all), rank)};
  }
  if (layout.hosts.size() == 1) return std::nullopt;
  if (layout.local > 0) return TreeLayout{};
  shape.hosts = hosts_of_one(layout.hosts.size());
  return TreeLayout{false, plan_for(shape, layout.rail_ranks(0), layout.host)};
}

}  // namespace elastictrain::comm

#include "train/comm/topology.h"

#include <algorithm>
#include <set>

#include "supervisor/protocol/check.h"

namespace elastictrain::comm {
namespace {

bool share_memory(const protocol::Endpoint& a, const protocol::Endpoint& b, Transport transport) {
  return transport == Transport::kAuto && a.host_key == b.host_key && !a.host_key.empty() && !a.unix_name.empty() &&
         !b.unix_name.empty();
}

void place(Layout& layout, const std::vector<protocol::Endpoint>& peers, std::uint32_t rank, Transport transport) {
  for (auto& host : layout.hosts) {
    if (share_memory(peers[host.front()], peers[rank], transport)) {
      host.push_back(rank);
      return;
    }
  }
  layout.hosts.push_back({rank});
}

void add_link(std::vector<LinkSpec>& links, std::uint32_t peer, Purpose purpose) {
  const bool known = std::any_of(links.begin(), links.end(), [&](const auto& link) { return link.peer_rank == peer; });
  if (!known) links.push_back({peer, purpose});
}

}  // namespace

Ranks Layout::rail_ranks(std::size_t rail) const {
  ET_CHECK(rail < std::max<std::size_t>(rails, 1), "a rail has a rank of every host");
  Ranks ranks;
  for (const auto& members : hosts) ranks.push_back(members[rail]);
  return ranks;
}

Layout make_layout(const std::vector<protocol::Endpoint>& peers, std::uint32_t rank, Transport transport) {
  ET_CHECK(rank < peers.size(), "a rank is a member of its generation");
  Layout layout;
  for (std::uint32_t peer = 0; peer < peers.size(); ++peer) place(layout, peers, peer, transport);
  std::size_t smallest = peers.size();
  for (std::size_t host = 0; host < layout.hosts.size(); ++host) {
    const auto& members = layout.hosts[host];
    smallest = std::min(smallest, members.size());
    const auto found = std::find(members.begin(), members.end(), rank);
    if (found == members.end()) continue;
    layout.host = host;
    layout.local = static_cast<std::size_t>(found - members.begin());
  }
  layout.rails = layout.hosts.size() > 1 ? smallest : 0;
  // Several agents on one machine may keep their workers separate.
  layout.ranks_on_machine = static_cast<std::size_t>(std::count_if(peers.begin(), peers.end(), [&](const auto& peer) {
    return peer.host_key == peers[rank].host_key || peer.addresses == peers[rank].addresses;
  }));
  return layout;
}

std::size_t ring_next(std::size_t position, std::size_t size) {
  return (position + 1) % size;
}
std::size_t ring_previous(std::size_t position, std::size_t size) {
  return (position + size - 1) % size;
}

std::optional<std::size_t> tree_parent(std::size_t position) {
  if (position == 0) return std::nullopt;
  return (position - 1) / 2;
}

std::vector<std::size_t> tree_children(std::size_t position, std::size_t size) {
  std::vector<std::size_t> children;
  for (std::size_t child = 2 * position + 1; child <= 2 * position + 2 && child < size; ++child) {
    children.push_back(child);
  }
  return children;
}

std::vector<LinkSpec> needed_links(const Layout& layout, Algorithm algorithm) {
  std::vector<LinkSpec> links;
  if (!layout.on_rail()) return links;
  const auto rail = layout.rail_ranks(layout.local);
  const auto position = layout.host;
  add_link(links, rail[ring_next(position, rail.size())], Purpose::kRingLink);
  add_link(links, rail[ring_previous(position, rail.size())], Purpose::kRingLink);
  const bool small_messages = layout.local == 0 && rail.size() > kMaxExchangeSize && algorithm == Algorithm::kAuto;
  if (!small_messages && algorithm != Algorithm::kTree) return links;
  if (const auto parent = tree_parent(position)) add_link(links, rail[*parent], Purpose::kTreeLink);
  for (const auto child : tree_children(position, rail.size())) add_link(links, rail[child], Purpose::kTreeLink);
  return links;
}

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

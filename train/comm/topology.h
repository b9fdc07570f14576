// Purpose: links between the ranks of one generation: hosts, rails, rings and trees, and one rank's part of them.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "supervisor/protocol/names.h"
#include "train/comm/communicator.h"
#include "train/comm/handshake.h"
#include "train/peers/shapes/reduction_graph.h"

// The links between the ranks of one generation. Pure: endpoints in; hosts, rails, rings and trees out.
//
// Ranks that share memory form a host. A rail joins the ranks with the same position on their hosts. There are as many
// rails as the smallest host has ranks, and each carries its slice of a large all-reduce. Rail 0 also carries small
// messages. Another shape (star, several trees) needs more functions here and a case in needed_links().

namespace elastictrain::comm {

using Ranks = std::vector<std::uint32_t>;

struct Layout {
  std::vector<Ranks> hosts;          // ordered by their lowest rank; ranks of a host ascend
  std::size_t host = 0;              // of this rank
  std::size_t local = 0;             // position of this rank on its host
  std::size_t rails = 0;             // ranks per host that hold links; 0 with one host
  std::size_t ranks_on_machine = 1;  // that compete for this machine's cores, whatever the transport

  const Ranks& local_ranks() const { return hosts[host]; }
  // One rank per host, in the order of the hosts.
  Ranks rail_ranks(std::size_t rail) const;
  bool on_rail() const { return local < rails; }
};

Layout make_layout(const std::vector<protocol::Endpoint>& peers, std::uint32_t rank, Transport transport);

// Positions 0..size-1 on a rail.
std::size_t ring_next(std::size_t position, std::size_t size);
std::size_t ring_previous(std::size_t position, std::size_t size);
std::optional<std::size_t> tree_parent(std::size_t position);
std::vector<std::size_t> tree_children(std::size_t position, std::size_t size);

// Up to this many positions a small all-reduce needs only ring neighbours: all ranks are neighbours (2, 3), or pairs of
// neighbours combine twice around the ring (4). Above it uses the tree.
inline constexpr std::size_t kMaxExchangeSize = 4;

struct LinkSpec {
  std::uint32_t peer_rank = 0;
  Purpose purpose = Purpose::kRingLink;
};
// The links of this rank, one per peer. Both ends compute the same purpose.
std::vector<LinkSpec> needed_links(const Layout& layout, Algorithm algorithm);

// One rank's part of the trees of its generation. Pure.

using protocol::Parents;

// The members of the trees: either all ranks, or one rank of each host after shared memory has summed there. Graphs
// count the members: 0 is members[0].
struct TreePlan {
  Ranks members;
  std::size_t position = 0;               // of this rank among the members
  std::vector<peers::LocalEdges> graphs;  // its part in each, in members' positions
  Ranks ways;                             // along the first graph to each member: the position of the neighbour

  // Positions that share an edge of any graph with this rank, ascending.
  Ranks neighbours() const;
  // The same for the first graph only.
  Ranks first_neighbours() const;
};

// The trees of a generation and its hosts.
struct TreeLayout {
  bool over_all_ranks = false;   // otherwise over one rank of each host
  std::optional<TreePlan> plan;  // nullopt for a rank that is not a member
};

// nullopt if no tree is needed: the automatic topology, a world of one, or a single host whose shared memory does all
// that the topology requires. `parents` must be a tree or empty.
std::optional<TreeLayout> make_tree_layout(protocol::Topology topology, const Parents& parents, const Layout& layout,
                                           std::uint32_t rank);

}  // namespace elastictrain::comm

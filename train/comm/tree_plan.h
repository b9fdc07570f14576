// Purpose: one rank's part of the trees of its generation. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "supervisor/protocol/topology_choice.h"
#include "train/comm/topology.h"
#include "train/peers/shapes/reduction_graph.h"

namespace elastictrain::comm {

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

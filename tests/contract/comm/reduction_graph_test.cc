// The trees of every topology on hand-drawn layouts, and on many others by properties that hold for all of them.
#include <doctest/doctest.h>

#include <limits>
#include <set>

#include "supervisor/protocol/names.h"
#include "train/comm/topology.h"
#include "train/peers/shapes/reduction_graph.h"
#include "train/peers/shapes/spanning_tree.h"

namespace elastictrain::comm {

using peers::edges_of;
using peers::graph_at;
using peers::graph_count;
using peers::GraphShape;
using peers::LocalEdges;
using peers::plan_chunks;
using peers::ReductionGraph;
using peers::sums_on_hosts_first;
using peers::ways_to_all;

namespace {

using Kind = protocol::Topology;
using protocol::check_tree;

// Hosts A with ranks 0, 1, 2, B with 3, 4 and C with 5.
const std::vector<Ranks> kThreeHosts{{0, 1, 2}, {3, 4}, {5}};

GraphShape on_three_hosts(Kind kind) {
  return {kind, kThreeHosts, {}};
}

std::vector<Parents> reduce_trees(const GraphShape& shape) {
  std::vector<Parents> trees;
  for (std::size_t i = 0; i < graph_count(shape); ++i) trees.push_back(graph_at(shape, i).reduce);
  return trees;
}

TEST_CASE("a star gathers at rank 0, a clique has one star for every rank, a multi-star one for every host") {
  CHECK(reduce_trees(on_three_hosts(Kind::kStar)) == std::vector<Parents>{{0, 0, 0, 0, 0, 0}});
  const auto clique = reduce_trees(on_three_hosts(Kind::kClique));
  CHECK(clique.size() == 6);
  CHECK(clique[4] == Parents{4, 4, 4, 4, 4, 4});
  CHECK(reduce_trees(on_three_hosts(Kind::kMultiStar)) ==
        std::vector<Parents>{{0, 0, 0, 0, 0, 0}, {3, 3, 3, 3, 3, 3}, {5, 5, 5, 5, 5, 5}});
}

TEST_CASE("a tree is a star on each host and one over the hosts") {
  CHECK(reduce_trees(on_three_hosts(Kind::kTree)) == std::vector<Parents>{{0, 0, 0, 0, 3, 0}});
}

TEST_CASE("a binary tree counts ranks like a heap, whatever the hosts") {
  CHECK(reduce_trees(on_three_hosts(Kind::kBinaryTree)) == std::vector<Parents>{{0, 0, 0, 1, 1, 2}});
}

TEST_CASE("a binary-tree-star is a star on each host and a binary tree over the hosts, in every rotation if multi") {
  const std::vector<Ranks> four_hosts{{0, 1}, {2}, {3}, {4}};
  CHECK(reduce_trees({Kind::kBinaryTreeStar, four_hosts, {}}) == std::vector<Parents>{{0, 0, 0, 0, 2}});
  // Heaps over the hosts' first ranks: 0 2 3 4, then 2 3 4 0, 3 4 0 2, 4 0 2 3.
  CHECK(reduce_trees({Kind::kMultiBinaryTreeStar, four_hosts, {}}) ==
        std::vector<Parents>{{0, 0, 0, 0, 2}, {3, 0, 2, 2, 2}, {3, 0, 4, 3, 3}, {4, 0, 4, 0, 4}});
}

TEST_CASE("a ring has a chain for every rank that ends there, and the sum continues in the same direction") {
  const GraphShape ring{Kind::kRing, {{0}, {1}, {2}}, {}};
  CHECK(reduce_trees(ring) == std::vector<Parents>{{0, 2, 0}, {1, 1, 0}, {1, 2, 2}});
  CHECK(graph_at(ring, 0).spread == Parents{0, 0, 1});
  CHECK(graph_at(ring, 1).spread == Parents{2, 1, 1});
}

TEST_CASE("in every topology on every layout each tree reaches every rank once, from one root both ways") {
  const std::vector<std::vector<Ranks>> layouts{
      {{0, 1}}, {{0}, {1}}, {{0, 2}, {1, 3}}, {{0, 1, 2, 3, 4}}, {{0, 3}, {1}, {2, 4, 5, 6}, {7, 8}}, kThreeHosts};
  for (const auto& hosts : layouts) {
    for (std::size_t i = 1; i < protocol::kTopologyNames.size(); ++i) {
      const GraphShape shape{static_cast<Kind>(i), hosts, {}};
      CAPTURE(protocol::kTopologyNames[i]);
      for (std::size_t index = 0; index < graph_count(shape); ++index) {
        const auto graph = graph_at(shape, index);
        CHECK(check_tree(graph.reduce, graph.reduce.size()).ok());
        CHECK(check_tree(graph.spread, graph.reduce.size()).ok());
        for (std::uint32_t rank = 0; rank < graph.reduce.size(); ++rank) {
          CHECK((graph.reduce[rank] == rank) == (graph.spread[rank] == rank));
        }
      }
    }
  }
}

TEST_CASE("both ends of every edge know it, and the ways to all ranks lead along the tree") {
  for (std::size_t i = 1; i < protocol::kTopologyNames.size(); ++i) {
    CAPTURE(protocol::kTopologyNames[i]);
    std::vector<TreePlan> plans;
    std::set<std::pair<std::uint32_t, std::uint32_t>> links;
    for (std::uint32_t rank = 0; rank < 6; ++rank) {
      Layout layout;
      layout.hosts = {{0}, {1}, {2}, {3}, {4}, {5}};
      layout.host = rank;
      plans.push_back(*make_tree_layout(static_cast<Kind>(i), {}, layout, rank)->plan);
      for (const auto peer : plans.back().neighbours()) links.insert({rank, peer});
    }
    for (const auto& [from, to] : links) CHECK(links.count({to, from}) == 1);
    for (std::uint32_t rank = 0; rank < 6; ++rank) {
      for (const auto way : plans[rank].first_neighbours()) CHECK(links.count({rank, way}) == 1);
    }
    for (std::uint32_t from = 0; from < 6; ++from) {
      for (std::uint32_t to = 0; to < 6; ++to) {
        std::uint32_t at = from;
        for (int hops = 0; at != to && hops < 6; ++hops) at = plans[at].ways[to];
        CHECK(at == to);
      }
    }
  }
}

TEST_CASE("if hosts sum in shared memory only their first ranks exchange data, and on one host none") {
  Layout layout;
  layout.hosts = kThreeHosts;
  layout.host = 1;
  const auto first = make_tree_layout(Kind::kBinaryTreeStar, {}, layout, 3);
  CHECK_FALSE(first->over_all_ranks);
  CHECK(first->plan->members == Ranks{0, 3, 5});
  CHECK(first->plan->position == 1);
  layout.local = 1;
  CHECK_FALSE(make_tree_layout(Kind::kBinaryTreeStar, {}, layout, 4)->plan.has_value());
  CHECK(make_tree_layout(Kind::kStar, {}, layout, 4)->over_all_ranks);
  layout.hosts = {{0, 1, 2}};
  CHECK_FALSE(make_tree_layout(Kind::kTree, {}, layout, 1).has_value());
  CHECK_FALSE(make_tree_layout(Kind::kAuto, {}, layout, 1).has_value());
}

TEST_CASE("what is no tree is refused with the reason") {
  CHECK(check_tree({1, 1, 1, 0}, 4).ok());
  CHECK(check_tree({0, 0}, 3).error().message.find("2 parents for 3 ranks") != std::string::npos);
  CHECK(check_tree({0, 7}, 2).error().message.find("rank 7 does not exist") != std::string::npos);
  CHECK(check_tree({0, 1, 0}, 3).error().message.find("2 roots") != std::string::npos);
  CHECK(check_tree({0, 2, 1}, 3).error().message.find("cycle") != std::string::npos);
}

TEST_CASE("a topology is written as its name or as the list of its parents, and read again") {
  for (const std::string text : {"auto", "multi-star", "1,1,1,0", "0"}) {
    const auto choice = protocol::topology_choice(text);
    REQUIRE(choice.has_value());
    CHECK(protocol::text_of(choice->topology, choice->parents) == text);
  }
  for (const std::string text : {"", "circle", "1,,2", "1,2,", "1 2", "-1", "1,99999999999"}) {
    CAPTURE(text);
    CHECK_FALSE(protocol::topology_choice(text).has_value());
  }
}

TEST_CASE("data is cut so that every tree carries the same, and small data is not cut") {
  const auto cut = [](std::size_t bytes, std::size_t graphs) {
    const auto plan = plan_chunks(bytes, graphs);
    return std::pair(plan.graphs, plan.chunks);
  };
  CHECK(cut(0, 8) == std::pair<std::size_t, std::size_t>(1, 1));
  CHECK(cut(4096, 8) == std::pair<std::size_t, std::size_t>(1, 1));
  CHECK(cut(100 << 10, 8) == std::pair<std::size_t, std::size_t>(3, 3));
  CHECK(cut(1 << 20, 8) == std::pair<std::size_t, std::size_t>(8, 8));
  CHECK(cut(25 << 20, 1) == std::pair<std::size_t, std::size_t>(1, 25));
  CHECK(cut(25 << 20, 8) == std::pair<std::size_t, std::size_t>(8, 32));
}

constexpr double kUnknown = std::numeric_limits<double>::infinity();

TEST_CASE("the spanning tree has the least latency, with real numbers and the lowest ranks on ties") {
  // Means of both directions: 0-1 2.5, 0-2 2.4, 1-2 1.0, 0-3 9.0, 1-3 4.0, 2-3 4.0. Cut to whole numbers 0-1 would
  // be as near as 0-2.
  const std::vector<double> latencies{0.0, 2.0, 2.4, 9.0,  //
                                      3.0, 0.0, 1.0, 3.0,  //
                                      2.4, 1.0, 0.0, 4.0,  //
                                      9.0, 5.0, 4.0, 0.0};
  const auto edges = peers::minimum_spanning_tree(latencies, 4);
  CHECK(edges == std::vector<peers::TreeEdge>{{0, 2}, {2, 1}, {1, 3}});
  CHECK(peers::parents_of(edges, 4) == Parents{0, 2, 0, 1});
  CHECK(peers::minimum_spanning_tree(std::vector<double>(9, 1.0), 3) == std::vector<peers::TreeEdge>{{0, 1}, {0, 2}});
}

TEST_CASE("unmeasured ranks are left out, and one direction is enough") {
  const std::vector<double> latencies{0.0,      7.0, kUnknown,  //
                                      kUnknown, 0.0, kUnknown,  //
                                      kUnknown, -1,  0.0};
  const auto edges = peers::minimum_spanning_tree(latencies, 3);
  CHECK(edges == std::vector<peers::TreeEdge>{{0, 1}});
  const std::vector<double> only_back{0.0, kUnknown, 7.0, 0.0};
  CHECK(peers::minimum_spanning_tree(only_back, 2) == std::vector<peers::TreeEdge>{{0, 1}});
  CHECK(peers::parents_of(edges, 3).empty());
  CHECK(peers::minimum_spanning_tree({}, 0).empty());
  CHECK(peers::parents_of({}, 1) == Parents{0});
}

}  // namespace
}  // namespace elastictrain::comm

#include <doctest/doctest.h>

#include <set>

#include "train/comm/blocks.h"
#include "train/comm/topology.h"

namespace elastictrain::comm {
namespace {

std::vector<protocol::Endpoint> endpoints(const std::vector<std::string>& hosts) {
  std::vector<protocol::Endpoint> all;
  for (const auto& host : hosts) all.push_back({host, {"127.0.0.1"}, 1, "name"});
  return all;
}

TEST_CASE("ranks with one host key form a host, in any order") {
  const auto layout = make_layout(endpoints({"a", "b", "a", "c", "b"}), 4, Transport::kAuto);
  CHECK(layout.hosts == std::vector<Ranks>{{0, 2}, {1, 4}, {3}});
  CHECK(layout.host == 1);
  CHECK(layout.local == 1);
  CHECK(layout.rails == 1);
  CHECK_FALSE(layout.on_rail());
  CHECK(layout.rail_ranks(0) == Ranks{0, 1, 3});
}

TEST_CASE("with TCP only every rank is a host of its own but still shares the machine") {
  const auto layout = make_layout(endpoints({"a", "a", "a"}), 1, Transport::kTcpOnly);
  CHECK(layout.hosts.size() == 3);
  CHECK(layout.rails == 1);
  CHECK(layout.ranks_on_machine == 3);
}

TEST_CASE("there are as many rails as the smallest host has ranks, and none on a single host") {
  CHECK(make_layout(endpoints({"a", "a", "b", "b"}), 0, Transport::kAuto).rails == 2);
  CHECK(make_layout(endpoints({"a", "a", "b"}), 0, Transport::kAuto).rails == 1);
  CHECK(make_layout(endpoints({"a", "a"}), 0, Transport::kAuto).rails == 0);
}

TEST_CASE("both ends of every link use it for the same purpose, and no rank has more than a few") {
  for (std::size_t size = 2; size <= 40; ++size) {
    CAPTURE(size);
    std::set<std::tuple<std::uint32_t, std::uint32_t, Purpose>> links;
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      const auto layout = make_layout(endpoints(std::vector<std::string>(size, "a")), rank, Transport::kTcpOnly);
      const auto wanted = needed_links(layout, Algorithm::kAuto);
      CHECK(wanted.size() <= 5);
      for (const auto& link : wanted) links.insert({rank, link.peer_rank, link.purpose});
    }
    for (const auto& [from, to, purpose] : links) CHECK(links.count({to, from, purpose}) == 1);
  }
}

TEST_CASE("the tree reaches every position once") {
  for (std::size_t size = 1; size <= 40; ++size) {
    std::set<std::size_t> reached{0};
    for (std::size_t position = 0; position < size; ++position) {
      for (const auto child : tree_children(position, size)) {
        CHECK(reached.insert(child).second);
        CHECK(tree_parent(child) == position);
      }
    }
    CHECK(reached.size() == size);
  }
}

TEST_CASE("parts cover everything without overlap") {
  for (const std::size_t total : {0, 1, 15, 16, 17, 100, 4096, 100'003}) {
    for (const std::size_t parts : {1, 2, 3, 5, 64}) {
      CHECK(part_begin(total, parts, 0) == 0);
      CHECK(part_begin(total, parts, parts) == total);
      for (std::size_t i = 0; i < parts; ++i) CHECK(part_begin(total, parts, i) <= part_begin(total, parts, i + 1));
    }
  }
}

TEST_CASE("a vector of data and lane is cut anywhere") {
  std::vector<float> data{0, 1, 2, 3, 4};
  std::vector<float> lane{5, 6, 7};
  const ReduceVector vector(data, lane, 2.0F);
  for (std::size_t begin = 0; begin <= 8; ++begin) {
    for (std::size_t end = begin; end <= 8; ++end) {
      std::vector<float> seen;
      vector.slice(begin, end).for_runs(0, end - begin, [&](const auto& run, std::size_t offset) {
        CHECK(offset == seen.size());
        CHECK(run.scale == (run.is_data ? 2.0F : 1.0F));
        seen.insert(seen.end(), run.values, run.values + run.count);
      });
      std::vector<float> expected;
      for (std::size_t i = begin; i < end; ++i) expected.push_back(static_cast<float>(i));
      CHECK(seen == expected);
    }
  }
}

}  // namespace
}  // namespace elastictrain::comm

#include "heuristics/placement/placement.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

namespace elastictrain::heuristics::placement {
namespace {

using Layout = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

Layout layout(const Placed& placed) {
  Layout list;
  for (const Piece& piece : placed.pieces) list.emplace_back(piece.host, piece.slots);
  std::sort(list.begin(), list.end());
  return list;
}

// Whether no host has more than its slots, and none two jobs that span hosts.
void check_hosts(const std::vector<std::uint32_t>& host_slots, const std::vector<Placed>& placed) {
  std::map<std::uint32_t, std::uint32_t> used, spanning;
  for (const Placed& one : placed) {
    for (const Piece& piece : one.pieces) {
      used[piece.host] += piece.slots;
      if (one.pieces.size() > 1) ++spanning[piece.host];
    }
  }
  for (const auto& [host, slots] : used) CHECK(slots <= host_slots[host]);
  for (const auto& [host, jobs] : spanning) CHECK(jobs == 1);
}

TEST_CASE("a job takes the fewest hosts, in equal shares") {
  const auto placed = place({4, 4, 4, 4}, {{6}, {3}, {4}});
  CHECK(layout(placed[0]) == Layout{{0, 3}, {1, 3}});
  CHECK(layout(placed[2]) == Layout{{2, 4}});
  CHECK(layout(placed[1]) == Layout{{3, 3}});
}

TEST_CASE("among the hosts that have room the fullest is taken") {
  const auto placed = place({8, 8}, {{5, false, {{1, 5}}}, {3}});
  CHECK(layout(placed[1]) == Layout{{1, 3}});
}

TEST_CASE("a job whose size stays does not move; one that shrinks gives up the host with its fewest slots") {
  const auto placed = place({4, 4, 4}, {{5, false, {{0, 1}, {2, 4}}}, {4, false, {{1, 4}}}});
  CHECK(layout(placed[0]) == Layout{{0, 1}, {2, 4}});
  CHECK(layout(placed[1]) == Layout{{1, 4}});
  CHECK(layout(place({4, 4, 4}, {{4, false, {{0, 1}, {2, 4}}}})[0]) == Layout{{2, 4}});
}

TEST_CASE("a job that grows takes the free slots of its own hosts first") {
  CHECK(layout(place({4, 4}, {{3, false, {{1, 2}}}})[0]) == Layout{{1, 3}});
  CHECK(layout(place({4, 4}, {{6, false, {{1, 2}}}})[0]) == Layout{{0, 2}, {1, 4}});
}

TEST_CASE("two jobs that span hosts do not meet on one") {
  const auto placed = place({4, 4, 4}, {{6}, {6}});
  CHECK(placed[0].slots() == 6);
  CHECK(layout(placed[1]) == Layout{{2, 4}});
  check_hosts({4, 4, 4}, placed);
}

TEST_CASE("a job that wants one host gets one or none") {
  CHECK(layout(place({4, 4}, {{4, true}})[0]) == Layout{{0, 4}});
  CHECK(place({4, 4}, {{6, true}})[0].slots() == 0);
}

TEST_CASE("through random changes no host is used twice, and whoever keeps its size stays") {
  std::mt19937 rng(1);
  const std::vector<std::uint32_t> hosts(40, 8);
  std::vector<Job> jobs;
  for (int round = 0; round < 300; ++round) {
    if (jobs.size() < 30) jobs.push_back({static_cast<std::uint32_t>(1 + rng() % 20)});
    if (rng() % 3 == 0) jobs.erase(jobs.begin() + static_cast<std::ptrdiff_t>(rng() % jobs.size()));
    if (!jobs.empty()) jobs[rng() % jobs.size()].slots = 1 + rng() % 20;
    const auto placed = place(hosts, jobs);
    check_hosts(hosts, placed);
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      CHECK(placed[job].slots() <= jobs[job].slots);
      const Placed before{jobs[job].held};
      if (before.slots() == jobs[job].slots) CHECK(layout(before) == layout(placed[job]));
      jobs[job].held = placed[job].pieces;
    }
  }
}

}  // namespace
}  // namespace elastictrain::heuristics::placement

#include "heuristics/placement/repair.h"

#include <doctest/doctest.h>

namespace elastictrain::heuristics::placement {
namespace {

using Layout = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

Layout layout(const std::vector<Piece>& pieces) {
  Layout list;
  for (const Piece& piece : pieces) list.emplace_back(piece.host, piece.slots);
  return list;
}

Resident on(std::vector<Piece> held, double left_s, bool may_move = true) {
  return {std::move(held), {}, may_move, left_s, 10, 0.5, {}};
}

TEST_CASE("a job on two hosts comes together on that which has most of it, if it has long enough to go") {
  // It gains 3 x 600 x (1 - 1 / 1.05) = 85.7 slot-seconds, and pays 10 + 3 x 0.5 = 11.5.
  const auto repair = find_repair({2, 1, 4}, {on({{0, 1}, {1, 2}}, 600)}, {});
  REQUIRE(repair.moves.size() == 1);
  CHECK(layout(repair.moves[0].to) == Layout{{1, 3}});
  CHECK(repair.seeker == SIZE_MAX);
  CHECK(repair.gain_slot_s == doctest::Approx(85.714).epsilon(1e-4));
  CHECK(repair.price_slot_s == doctest::Approx(11.5));
  // 23 slot-seconds are needed: 161 s.
  CHECK(find_repair({2, 1, 4}, {on({{0, 1}, {1, 2}}, 160)}, {}).moves.empty());
  CHECK_FALSE(find_repair({2, 1, 4}, {on({{0, 1}, {1, 2}}, 162)}, {}).moves.empty());
  CHECK(find_repair({2, 1, 4}, {on({{0, 1}, {1, 2}}, 600, false)}, {}).moves.empty());
  CHECK(find_repair({1, 0, 2}, {on({{0, 1}, {1, 2}}, 600)}, {}).moves.empty());
}

TEST_CASE("what was measured counts more than what is hoped for") {
  Resident job = on({{0, 1}, {1, 1}}, 100);
  CHECK(find_repair({1, 1}, {job}, {}).moves.empty());
  job.rate = {{1, 150}, {2, 100}};  // 2 x 100 x (1 - 100 / 150) = 66.7 for 11
  CHECK(layout(find_repair({1, 1}, {job}, {}).moves.at(0).to) == Layout{{0, 2}});
  job.left_s = 1e6;
  job.rate = {{1, 100}, {2, 100}};
  CHECK(find_repair({1, 1}, {job}, {}).moves.empty());
  job.rate = {{1, 90}, {2, 100}};
  CHECK(find_repair({1, 1}, {job}, {}).moves.empty());
}

TEST_CASE("a job moves only to hosts that it may use, and spans none that another spanning job uses") {
  Resident job = on({{0, 1}, {1, 1}}, 1000);
  job.may_use = {false, true, true};
  CHECK(layout(find_repair({4, 0, 2}, {job}, {}).moves.at(0).to) == Layout{{2, 2}});
  const Resident other = on({{3, 1}, {4, 1}}, 1000, false);
  const Resident wide = on({{0, 1}, {1, 1}, {2, 2}}, 1000);
  // Two hosts hold it: host 3 has room, but its card is in use.
  CHECK(layout(find_repair({0, 1, 0, 3, 0}, {wide, other}, {}).moves.at(0).to) == Layout{{1, 2}, {2, 2}});
  CHECK(find_repair({0, 0, 0, 3, 0}, {wide, other}, {}).moves.empty());
}

TEST_CASE("room is made for a job that waits for slots of one host") {
  const std::vector<Resident> jobs = {on({{0, 1}}, 500), on({{1, 1}}, 400)};
  // The job that waits would wait for 400 s: it gains 800 slot-seconds for 10.5.
  const auto repair = find_repair({1, 1}, jobs, {{2, {}}});
  REQUIRE(repair.moves.size() == 1);
  CHECK(repair.moves[0].job == 0);
  CHECK(layout(repair.moves[0].to) == Layout{{1, 1}});
  CHECK(repair.seeker == 0);
  CHECK(repair.gain_slot_s == doctest::Approx(800));
  CHECK(repair.price_slot_s == doctest::Approx(10.5));
  // The host that it may use is cleared.
  CHECK(find_repair({1, 1}, jobs, {{2, {false, true}}}).moves.at(0).job == 1);
  // It has a host, not enough is free at all, or the end of the others is near.
  CHECK(find_repair({2, 1}, jobs, {{2, {}}}).moves.empty());
  CHECK(find_repair({1, 0}, jobs, {{2, {}}}).moves.empty());
  CHECK(find_repair({1, 1}, {on({{0, 1}}, 9), on({{1, 1}}, 9)}, {{2, {}}}).moves.empty());
  CHECK(find_repair({1, 1}, {on({{0, 1}}, 500, false), on({{1, 1}}, 400, false)}, {{2, {}}}).moves.empty());
}

TEST_CASE("all that has to leave a host leaves it, or nothing") {
  const std::vector<Resident> jobs = {on({{0, 1}}, 500), on({{0, 1}}, 500), on({{1, 3}}, 500), on({{2, 3}}, 500)};
  const auto repair = find_repair({2, 1, 1}, jobs, {{4, {}}});
  REQUIRE(repair.moves.size() == 2);
  CHECK(layout(repair.moves[0].to) == Layout{{1, 1}});
  CHECK(layout(repair.moves[1].to) == Layout{{2, 1}});
  CHECK(find_repair({2, 1, 1}, {jobs[0], on({{0, 1}}, 500, false), jobs[2], jobs[3]}, {{4, {}}}).moves.empty());
}

}  // namespace
}  // namespace elastictrain::heuristics::placement

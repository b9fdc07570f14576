#include "supervisor/core/pure/swap_plan.h"

#include <doctest/doctest.h>

using namespace elastictrain;
using namespace elastictrain::core;

namespace {

using Ids = std::vector<WorkerId>;

Place slot(std::uint32_t agent, std::uint32_t number) {
  return {AgentId{agent}, number};
}

// Members w1…wn in slots 0…n-1 of agent 1.
SwapInput with_members(std::uint32_t n) {
  SwapInput input;
  for (std::uint32_t i = 0; i < n; ++i) input.members.push_back({WorkerId{i + 1}, slot(1, i)});
  input.min = 1;
  input.want = n;
  return input;
}

PlanMember member(std::uint32_t id, const std::string& host, bool survivor) {
  return {WorkerId{id}, host, {}, survivor};
}

}  // namespace

TEST_CASE("growing takes ready workers first, then free slots") {
  SwapInput input = with_members(2);
  input.want = 5;
  input.candidates = {{WorkerId{7}, slot(2, 0)}};
  input.free = {slot(2, 1), slot(2, 2), slot(2, 3)};
  const SwapDecision decision = decide_swap(input);
  CHECK(decision.stay == Ids{{1}, {2}});
  CHECK(decision.join == Ids{{7}});
  CHECK(decision.start == std::vector<Place>{slot(2, 1), slot(2, 2)});
  CHECK(decision.leave.empty());
  CHECK(decision.size() == 5);
}

TEST_CASE("shrinking drops the highest ranks") {
  SwapInput input = with_members(4);
  input.want = 2;
  const SwapDecision decision = decide_swap(input);
  CHECK(decision.stay == Ids{{1}, {2}});
  CHECK(decision.leave == Ids{{3}, {4}});
}

TEST_CASE("a worker on a host that goes away leaves before one that could stay") {
  SwapInput input = with_members(3);
  input.members[0].displaced = true;
  input.want = 2;
  CHECK(decide_swap(input).stay == Ids{{2}, {3}});
  CHECK(decide_swap(input).leave == Ids{{1}});
}

TEST_CASE("a replaced worker stays until its replacement is ready") {
  SwapInput input = with_members(2);
  input.members[1].replaced = true;
  CHECK(decide_swap(input).stay == Ids{{1}, {2}});
  input.members[1].can_overlap = true;
  const SwapDecision decision = decide_swap(input);
  CHECK(decision.stay == Ids{{1}});
  CHECK(decision.start == std::vector<Place>{slot(1, 1)});
  CHECK(decision.leave == Ids{{2}});
}

TEST_CASE("a replaced worker whose device has no memory for two leaves before its successor starts") {
  SwapInput input = with_members(4);
  input.members[1].replaced = input.members[1].leaves_first = true;
  input.members[2].replaced = input.members[2].leaves_first = true;
  const SwapDecision decision = decide_swap(input);
  CHECK(decision.stay == Ids{{1}, {3}, {4}});  // one at a time
  CHECK(decision.leave == Ids{{2}});
  CHECK(decision.makes_room == WorkerId{2});
  CHECK(decision.start.empty());
  SUBCASE("its successor takes the free slot, and the next one waits for it") {
    SwapInput after = with_members(4);
    after.members.erase(after.members.begin() + 1);
    after.members[1].replaced = after.members[1].leaves_first = true;
    after.free = {slot(1, 1)};
    CHECK(decide_swap(after).start == std::vector<Place>{slot(1, 1)});
    CHECK(decide_swap(after).stay == Ids{{1}, {3}, {4}});
    CHECK(!decide_swap(after).makes_room);
  }
  SUBCASE("where a slot is free, nobody has to make room") {
    input.free = {slot(2, 0), slot(2, 1)};
    CHECK(decide_swap(input).leave == Ids{{2}, {3}});
    CHECK(decide_swap(input).start == std::vector<Place>{slot(2, 0), slot(2, 1)});
  }
  SUBCASE("not below the minimum, and the last one never") {
    input.min = 4;
    CHECK(decide_swap(input).leave.empty());
    SwapInput alone = with_members(1);
    alone.members[0].replaced = alone.members[0].leaves_first = true;
    CHECK(decide_swap(alone).stay == Ids{{1}});
  }
}

TEST_CASE("a free slot is better than sharing one") {
  SwapInput input = with_members(2);
  input.members[1].replaced = true;
  input.members[1].can_overlap = true;
  input.free = {slot(2, 0)};
  CHECK(decide_swap(input).start == std::vector<Place>{slot(2, 0)});
}

TEST_CASE("two members never stay in one slot") {
  SwapInput input = with_members(2);
  input.want = 3;
  input.members[1].replaced = true;
  input.candidates = {{WorkerId{9}, slot(1, 1), false}};  // started to share the slot of w2
  const SwapDecision decision = decide_swap(input);
  CHECK(decision.stay == Ids{{1}});
  CHECK(decision.join == Ids{{9}});
  CHECK(decision.leave == Ids{{2}});
}

TEST_CASE("workers on a host that goes away stay while the run needs them") {
  SwapInput input = with_members(3);
  for (CurrentMember& current : input.members) current.displaced = true;
  input.min = 2;
  const SwapDecision decision = decide_swap(input);
  CHECK(decision.stay == Ids{{1}, {2}});
  CHECK(decision.held == Ids{{1}, {2}});
  CHECK(decision.leave == Ids{{3}});
}

TEST_CASE("if all workers are new, rank 0 stays for one more generation") {
  SwapInput input = with_members(2);
  for (CurrentMember& current : input.members) current.displaced = true;
  input.candidates = {{WorkerId{8}, slot(2, 0)}, {WorkerId{9}, slot(2, 1)}};
  const SwapDecision decision = decide_swap(input);
  CHECK(decision.bridge == WorkerId{1});
  CHECK(decision.stay == Ids{{1}});
  CHECK(decision.leave == Ids{{2}});
  CHECK(decision.join == Ids{{8}, {9}});
}

TEST_CASE("spares fill the slots that are left, and no more wait than asked for") {
  SwapInput input = with_members(1);
  input.spares = 2;
  input.candidates = {{WorkerId{5}, slot(2, 0)}};
  input.free = {slot(2, 1), slot(2, 2)};
  CHECK(decide_swap(input).spare == Ids{{5}});
  CHECK(decide_swap(input).start_spare == std::vector<Place>{slot(2, 1)});
  input.candidates.push_back({WorkerId{6}, slot(2, 3)});
  input.candidates.push_back({WorkerId{7}, slot(2, 4)});
  CHECK(decide_swap(input).spare == Ids{{5}, {6}});
  CHECK(decide_swap(input).dismiss == Ids{{7}});
}

TEST_CASE("a worker that shares a slot cannot wait as a spare") {
  SwapInput input = with_members(1);
  input.spares = 1;
  input.candidates = {{WorkerId{5}, slot(1, 0), false}};
  CHECK(decide_swap(input).dismiss == Ids{{5}});
}

TEST_CASE("the plan numbers ranks, shares the batch and names donors") {
  RunSettings settings;
  settings.start_workers = 2;
  settings.batch = {32, 100, AtLimit::kSplit};
  settings.learning_rate.rule = LearningRateRule::kLinear;
  const auto plan = make_plan(
      settings, 5, 4, {member(1, "A", true), member(2, "A", true), member(3, "B", true), member(9, "B", false)});
  CHECK(plan.generation == 5);
  CHECK(plan.previous == 4);
  REQUIRE(plan.members.size() == 4);
  CHECK(plan.members[3].rank == 3);
  CHECK(plan.members[3].local_rank == 1);
  CHECK(plan.members[3].joiner);
  CHECK_FALSE(plan.members[0].joiner);
  CHECK(plan.members[0].share == 25);
  CHECK(plan.learning_rate_factor == doctest::Approx(100.0 / 64.0));
  CHECK(plan.donors == Ids{{1}, {3}, {2}});  // one of each host first
}

TEST_CASE("at most eight donors send") {
  std::vector<PlanMember> members;
  for (std::uint32_t i = 1; i <= 12; ++i) members.push_back(member(i, "A", true));
  members.push_back(member(13, "B", false));
  CHECK(make_plan({}, 2, 1, members).donors.size() == kMaxDonors);
}

TEST_CASE("without joiners, and in the first generation, there are no donors") {
  const auto first = make_plan({}, 1, 0, {member(1, "A", false), member(2, "A", false)});
  CHECK_FALSE(first.members[0].joiner);
  CHECK(first.donors.empty());
  CHECK(make_plan({}, 2, 1, {member(1, "A", true)}).donors.empty());
}

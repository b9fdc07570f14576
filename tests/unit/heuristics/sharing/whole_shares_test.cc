#include "heuristics/sharing/grants.h"

#include <doctest/doctest.h>

namespace elastictrain::heuristics::sharing {
namespace {

using Shares = std::vector<std::uint32_t>;

std::vector<Grant> grants(std::initializer_list<double> slots) {
  std::vector<Grant> list;
  for (const double one : slots) list.push_back({one, Why::kFair, 0});
  return list;
}

constexpr UserLimits kFree{};

TEST_CASE("grants within everybody's bounds stay as they are") {
  const std::vector<Bounds> bounds(2, {.least = 1, .most = 4});
  CHECK(whole_shares(grants({3, 1}), bounds, {kFree}, 4) == Shares{3, 1});
  CHECK(whole_shares(grants({2, 0}), bounds, {kFree}, 4) == Shares{2, 0});
}

TEST_CASE("a job gets its least or nothing, and what it cannot have goes to the others") {
  CHECK(whole_shares(grants({1, 3}), {{.least = 2, .most = 4}, {.least = 1, .most = 4}}, {kFree}, 4) == Shares{2, 2});
  CHECK(whole_shares(grants({3, 1}), {{.least = 1, .most = 4}, {.least = 4, .most = 4}}, {kFree}, 4) == Shares{4, 0});
  CHECK(whole_shares(grants({4, 0}), {{.least = 1, .most = 2}, {.least = 1, .most = 4}}, {kFree}, 4) == Shares{2, 2});
}

TEST_CASE("a job that cannot be suspended keeps its least whatever the policy says") {
  CHECK(whole_shares(grants({4, 0}), {{.least = 1, .most = 4}, {.least = 2, .most = 4, .runs = true, .keeps = true}},
                     {kFree}, 4) == Shares{2, 2});
}

TEST_CASE("while a job waits for its least, running jobs may have what is free and no later job begins") {
  const std::vector<Bounds> bounds = {
      {.least = 1, .most = 8, .runs = true, .keeps = true}, {.least = 4, .most = 4}, {.least = 1, .most = 1}};
  CHECK(whole_shares(grants({1, 1, 1}), bounds, {kFree}, 4) == Shares{3, 0, 0});
  CHECK(whole_shares(grants({1, 1, 1}), bounds, {kFree}, 5) == Shares{1, 4, 0});
}

TEST_CASE("a user's limits hold for all jobs of the user, and block nobody else") {
  const std::vector<Bounds> bounds = {
      {.least = 1, .most = 4, .user = 0}, {.least = 1, .most = 4, .user = 0}, {.least = 1, .most = 4, .user = 1}};
  CHECK(whole_shares(grants({3, 3, 2}), bounds, {{.slots = 3}, kFree}, 8) == Shares{2, 1, 4});
  CHECK(whole_shares(grants({3, 3, 2}), bounds, {{.running = 1}, kFree}, 8) == Shares{4, 0, 4});
}

TEST_CASE("a guest of another job's slots takes none, also where it could not be suspended") {
  const std::vector<Bounds> bounds = {{.least = 1, .most = 4, .runs = true},
                                      {.least = 1, .most = 4, .runs = true, .keeps = true},
                                      {.least = 1, .most = 4}};
  auto some = grants({2, 2, 2});
  some[1].beside = 1;
  CHECK(whole_shares(some, bounds, {kFree}, 4) == Shares{2, 0, 2});
}

}  // namespace
}  // namespace elastictrain::heuristics::sharing

// Whole clusters in simulated time, by seed. `ELASTICTRAIN_SEEDS=FROM:TO` runs other seeds than those of the default.
#include <doctest/doctest.h>

#include <climits>
#include <cstdlib>
#include <map>
#include <string>

#include "world.h"

namespace elastictrain::cluster_core::test {
namespace {

std::pair<std::uint64_t, std::uint64_t> seeds() {
  const char* const given = std::getenv("ELASTICTRAIN_SEEDS");
  if (given == nullptr) return {1, 3000};
  const std::string text = given;
  return {std::strtoull(text.c_str(), nullptr, 10), std::strtoull(text.c_str() + text.find(':') + 1, nullptr, 10)};
}

TEST_CASE("under any faults no slot is used twice, and every job ends at last") {
  const auto [from, to] = seeds();
  std::uint64_t events = 0, kept = 0, undone = 0, came = 0, returned = 0, preempted = 0, answers = 0;
  std::map<record::MoveOutcome, std::uint64_t> moves;
  int broken = 0;
  const int most_broken = std::getenv("ELASTICTRAIN_SEEDS") == nullptr ? 5 : INT_MAX;  // a campaign names them all
  for (std::uint64_t seed = from; seed <= to && broken < most_broken; ++seed) {
    World world(seed);
    const std::string problem = world.run();
    events += world.events();
    kept += world.kept();
    undone += world.undone();
    came += world.helpers().came;
    returned += world.helpers().returned;
    preempted += world.helpers().preempted;
    answers += world.answers();
    for (const auto& [outcome, count] : world.moves()) moves[outcome] += count;
    if (problem.empty()) continue;
    ++broken;
    FAIL_CHECK("seed " << seed << ": " << problem);
  }
  CHECK(events > (to - from + 1) * 50);
  if (std::getenv("ELASTICTRAIN_SEEDS") != nullptr) return;  // others may have few pairs
  MESSAGE(kept << " pairs were kept and " << undone << " undone");
  MESSAGE(moves[record::MoveOutcome::kDone] << " moves were done, " << moves[record::MoveOutcome::kKept] << " kept, "
                                            << moves[record::MoveOutcome::kUndone] << " undone, "
                                            << moves[record::MoveOutcome::kTakenBack] << " taken back, "
                                            << moves[record::MoveOutcome::kSuperseded] << " superseded");
  MESSAGE(came << " hosts of helper jobs came, " << returned << " were returned, " << preempted << " preempted");
  CHECK(answers > 5000);
  CHECK(returned > 100);
  CHECK(preempted > 20);
  for (const auto outcome : {record::MoveOutcome::kDone, record::MoveOutcome::kKept, record::MoveOutcome::kUndone,
                             record::MoveOutcome::kTakenBack, record::MoveOutcome::kSuperseded}) {
    CHECK(moves[outcome] > 5);
  }
  CHECK(kept > 20);
  CHECK(undone > 20);
}

// A job that is leased slots, and loses them before it was begun, gives them back.
TEST_CASE("seeds beyond the default ones that have found something") {
  for (const std::uint64_t seed : {370780}) CHECK(World(seed).run() == "");
}

}  // namespace
}  // namespace elastictrain::cluster_core::test

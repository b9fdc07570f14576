#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "fake_run.h"

namespace elastictrain::test {
namespace {

// One random next membership: some leave, some join, ranks shuffled.
std::vector<WorkerId> random_members(FakeRun& run, std::mt19937& random) {
  auto members = run.members();
  std::shuffle(members.begin(), members.end(), random);
  const std::size_t keep = 1 + random() % members.size();
  members.resize(keep);
  const std::size_t join = random() % 3;
  for (std::size_t i = 0; i < join && members.size() < 4; ++i) members.push_back(run.spawn_ready());
  std::shuffle(members.begin(), members.end(), random);
  return members;
}

std::vector<std::uint32_t> random_shares(std::size_t count, std::mt19937& random) {
  std::vector<std::uint32_t> shares(count);
  for (auto& share : shares) share = 1 + random() % 20;
  return shares;
}

void random_change(FakeRun& run, std::mt19937& random) {
  const auto members = random_members(run, random);
  if (random() % 3 == 0) {
    const auto given_up = run.plan(members, random_shares(members.size(), random));
    run.prepare(given_up);
    if (random() % 2 == 0) run.wait_prepared(given_up);
    if (random() % 2 == 0) run.cancel(given_up);
  }
  run.change_to(members, random_shares(members.size(), random));
  const WorkerId someone = run.members().front();
  if (random() % 2 == 0) run.wait_step(someone, run[someone].active.rbegin()->second.first_step + random() % 8);
}

TEST_CASE("any sequence of changes keeps states bit-identical and uses every sample once") {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    FakeRun run(
        {.sample_count = 200 + seed * 17, .parameters = seed % 2 == 0 ? 200'000U : 999U, .overlap = seed % 2 == 0});
    if (seed == 3) run.set_environment("ELASTICTRAIN_TRANSPORT", "tcp");
    run.change_to({run.spawn_ready(), run.spawn_ready()});
    for (int change = 0; change < 12; ++change) random_change(run, random);
    run.stop();
    run.wait_all_exited();
    for (const auto& [id, worker] : run.workers()) {
      CHECK((worker.exit_code == kExitStopped || worker.exit_code == kExitLeft));
    }
    run.check_audit();
  }
}

}  // namespace
}  // namespace elastictrain::test

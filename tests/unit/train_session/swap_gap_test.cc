#include "train/session/measurements.h"

#include <doctest/doctest.h>

#include "fake_run.h"

namespace elastictrain::test {
namespace {

using std::chrono::milliseconds;

void commit_after(session::SwapGap& gap, session::SwapGap::Time& now, std::initializer_list<int> gaps_ms) {
  for (const int ms : gaps_ms) gap.committed(now += milliseconds(ms));
}

TEST_CASE("a change is reported after five more steps, with its own step separate from the typical one") {
  session::SwapGap gap;
  session::SwapGap::Time now{};
  commit_after(gap, now, {100, 100});
  CHECK(!gap.take());
  gap.swapped(2);
  commit_after(gap, now, {170, 120, 110, 130, 500});
  CHECK(!gap.take());
  commit_after(gap, now, {115});
  const auto reported = gap.take();
  REQUIRE(reported);
  CHECK(reported->generation == 2);
  CHECK(reported->gap_us == doctest::Approx(170'000));
  CHECK(reported->step_us == doctest::Approx(120'000));
  commit_after(gap, now, {100, 100, 100, 100, 100, 100, 100});
  CHECK(!gap.take());
}

TEST_CASE("a change that ends early is reported with the available steps, or not at all") {
  session::SwapGap gap;
  session::SwapGap::Time now{};
  commit_after(gap, now, {100});
  gap.swapped(2);
  commit_after(gap, now, {170});
  CHECK(!gap.take_early());
  gap.swapped(3);
  commit_after(gap, now, {150, 90});
  const auto reported = gap.take_early();
  REQUIRE(reported);
  CHECK(reported->generation == 3);
  CHECK(reported->step_us == doctest::Approx(90'000));
}

TEST_CASE("a change before the first commit, behind the loss of another worker, has no cost that could be told") {
  session::SwapGap gap;
  session::SwapGap::Time now{};
  gap.swapped(3);
  now += milliseconds(57'880'421);
  commit_after(gap, now, {100, 100, 100, 100, 100, 100, 100});
  CHECK(!gap.take());
  gap.swapped(4);
  commit_after(gap, now, {170, 100});
  const auto reported = gap.take_early();
  REQUIRE(reported);
  CHECK(reported->generation == 4);
  CHECK(reported->gap_us == doctest::Approx(170'000));
}

TEST_CASE("survivors tell what a change cost them, others do not") {
  FakeRun run;
  const std::vector<WorkerId> workers{run.spawn_ready(), run.spawn_ready(), run.spawn_ready()};
  run.change_to({workers[0], workers[1]});
  run.wait_step(workers[0], 5);
  run.change_to({workers[0], workers[2]});
  run.wait_until([&] { return run[workers[0]].swaps.contains(2); }, "the survivor's report");
  CHECK(run[workers[0]].swaps.at(2).gap_us > 0);
  CHECK(run[workers[0]].swaps.at(2).step_us > 0);
  CHECK(!run[workers[0]].swaps.contains(1));
  run.stop();
  run.wait_all_exited();
  CHECK(run[workers[1]].swaps.empty());
  CHECK(run[workers[2]].swaps.empty());
}

}  // namespace
}  // namespace elastictrain::test

// A program that ends its data by a condition of its own.
#include <doctest/doctest.h>

#include <vector>

#include "fake_run.h"

namespace elastictrain::test {
namespace {

constexpr std::uint64_t kFarAway = 1'000'000;  // so that the epoch may stay incomplete

TestWorkerOptions ending_at(TestWorkerOptions options, std::uint64_t step) {
  options.in_step = [step](Session& session, std::uint64_t now) {
    if (now == step) session.end_data();
  };
  return options;
}

void check_end(FakeRun& run, const std::vector<WorkerId>& workers, Step last) {
  for (const WorkerId worker : workers) {
    run.wait_exit(worker);
    CHECK(run[worker].exit_code == kExitFinished);
    REQUIRE(run[worker].finished);
    CHECK(run[worker].finished->last_step == last);
  }
  run.check_audit();
}

TEST_CASE("one worker ends the data of all, with the step in which it says so") {
  for (const bool overlap : {false, true}) {
    const TestWorkerOptions options{.max_steps = kFarAway, .overlap = overlap};
    FakeRun run(options);
    auto workers = run.spawn_ready(2, options);
    workers.push_back(run.spawn_ready(ending_at(options, 7)));
    run.change_to(workers);
    check_end(run, workers, 7);
  }
}

TEST_CASE("an end that is said between two steps counts in the next one") {
  TestWorkerOptions options{.max_steps = kFarAway};
  options.between_steps = [](Session& session, std::uint64_t step) {
    if (step == 7 && session.rank() == 1) session.end_data();
  };
  FakeRun run(options);
  const auto workers = run.spawn_ready(2);
  run.change_to(workers);
  check_end(run, workers, 8);
}

TEST_CASE("a worker that joins at the end of the data ends as well") {
  TestWorkerOptions options{.max_steps = kFarAway};
  options.waits = Moment{Moment::kComputing, 7};  // both: what a lane says is settled when it is sent
  FakeRun run({.max_steps = kFarAway});
  const std::vector<WorkerId> workers{run.spawn_ready(ending_at(options, 7)), run.spawn_ready(options)};
  run.change_to(workers);
  const auto joiner = run.spawn_ready();
  auto plan = run.plan({workers[0], workers[1], joiner});
  run.prepare(plan);
  run.wait_prepared(plan);
  run.commit(plan);
  const auto beats = [&](WorkerId worker) { return run[worker].heartbeat.sequence; };
  const auto first = beats(workers[0]) + 2, second = beats(workers[1]) + 2;
  run.wait_until([&] { return beats(workers[0]) >= first && beats(workers[1]) >= second; }, "the commit to arrive");
  run.wait_step(workers[0], 6);
  run.let_go();
  check_end(run, {workers[0], workers[1], joiner}, 7);
}

TEST_CASE("the data end although a worker is lost in the last step") {
  TestWorkerOptions options{.max_steps = kFarAway};
  FakeRun run({.max_steps = kFarAway});
  const std::vector<WorkerId> workers{run.spawn_ready(ending_at(options, 7)), run.spawn_ready(),
                                      run.spawn_ready(dying(options, {Moment::kBetweenBuckets, 7}))};
  run.change_to(workers);
  run.wait_exit(workers[2]);
  run.recover();
  check_end(run, {workers[0], workers[1]}, 7);
}

TEST_CASE("alone, a program ends its data too") {
  Session session;
  session.set_data({.sample_count = 0, .batch = 4});
  CHECK_THROWS_AS(session.end_data(), SessionError);
  session.start();
  int steps = 0;
  while (session.next_batch()) {
    if (++steps == 3) session.end_data();
    session.commit_step();
  }
  CHECK(steps == 3);
  CHECK(session.outcome() == Outcome::kFinished);
}

}  // namespace
}  // namespace elastictrain::test

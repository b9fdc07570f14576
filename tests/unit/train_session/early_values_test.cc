// Small values of the program that a joiner has before its first step.
#include <doctest/doctest.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_run.h"
#include "tests/unit/checkpoint/directory.h"
#include "train/session/auxiliary_state.h"

namespace elastictrain::test {
namespace {

std::uint64_t early_number(const Session& session, const char* name) {
  const auto value = session.early(name);
  if (!value || value->size() != sizeof(std::uint64_t)) throw std::runtime_error("no such early value");
  std::uint64_t number = 0;
  std::memcpy(&number, value->data(), sizeof number);
  return number;
}

// "step" is that of the last committed step; it starts as the process's own id.
TestWorkerOptions with_early_step() {
  TestWorkerOptions options;
  options.before_start = [](Session& session) {
    const std::uint64_t mine = 1'000'000 + session.worker_id();
    session.share_early("step", &mine, sizeof mine);
  };
  options.after_start = [](Session& session) {
    const auto first = early_number(session, "step");
    demand(first == (session.committed_step() == 0 ? 1'000'001 : session.committed_step()),
           "another step's early value");
    session.note("early_at_start", std::to_string(first));
  };
  options.in_step = [](Session& session, std::uint64_t step) {
    demand(step == 1 || early_number(session, "step") == session.committed_step(), "the value before its commit");
    session.share_early("step", &step, sizeof step);
    if (step == 3) session.share_early("late", "abc", 3);
  };
  options.between_steps = [](Session& session, std::uint64_t) {
    const bool runs = session.outcome() == Outcome::kRunning;
    demand(!runs || early_number(session, "step") == session.committed_step(), "the value after its commit");
  };
  return options;
}

TEST_CASE("all workers begin with the first rank's early values, and a joiner with the present ones") {
  const auto options = with_early_step();
  FakeRun run(options);
  auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_step(workers[0], 10);
  workers.push_back(run.spawn_ready());
  run.change_to(workers);
  run.wait_until([&] { return run[workers[0]].notes.contains("early_at_start"); }, "the note");
  CHECK(run[workers[0]].notes["early_at_start"] == "1000001");
  const Step first = run[workers[2]].active.at(2).first_step;
  run.wait_step(workers[2], first + 5);
  run.stop_and_check();
}

TEST_CASE("a run that resumes has the early values of its checkpoint at its start, and so have its other workers") {
  checkpoint::test::Directory directory;
  const auto options = with_early_step();
  Step stopped_at = 0;
  {
    FakeRun run(options);
    run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
    const auto worker = run.spawn_ready();
    run.change_to({worker});
    run.wait_step(worker, 5);
    run.stop();
    run.wait_all_exited();
    stopped_at = run[worker].left->last_step;
  }
  FakeRun run(options);
  run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
  run.set_environment("ELASTICTRAIN_RESUME", "1");
  const auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_step(workers[1], stopped_at + 3);
  CHECK(run[workers[0]].notes["early_at_start"] == std::to_string(stopped_at));
  run.stop();
  run.wait_all_exited();
  for (const WorkerId worker : workers) CHECK(run[worker].exit_code == kExitStopped);
}

TEST_CASE("early values follow a loss, also for a worker that missed the step's end and for a spare") {
  for (const auto where : {Moment::kComputing, Moment::kBetweenBuckets, Moment::kUpdating, Moment::kOutside}) {
    FakeRun run(with_early_step());
    const auto workers = run.lose_last_of_three(where, true);
    run.wait_step(workers[0], 15);
    run.stop_and_check();
  }
}

TEST_CASE("a value that is shared in a discarded step is gone with it, and all of them are bounded") {
  session::EarlyValues values;
  const std::byte one{1}, two{2};
  values.share("a", {&one, 1}, false);
  values.share("a", {&two, 1}, true);
  CHECK(values.find("a")->front() == one);
  values.discard();
  values.commit();
  CHECK(values.find("a")->front() == one);
  values.share("a", {&two, 1}, true);
  values.commit();
  CHECK(values.find("a")->front() == two);
  CHECK(values.find("b") == nullptr);
  const std::vector<std::byte> large(session::EarlyValues::kMaxBytes - 2);
  CHECK_THROWS_AS(values.share("b", large, true), SessionError);
  values.share("b", std::span(large).first(large.size() - 1), true);
}

TEST_CASE("an early value between two steps is refused") {
  Session session;
  session.set_data({.sample_count = 4});
  session.share_early("a", "x", 1);
  session.start();
  CHECK(session.early("a")->size() == 1);
  CHECK_FALSE(session.early("b"));
  CHECK_THROWS_AS(session.share_early("a", "y", 1), SessionError);
}

}  // namespace
}  // namespace elastictrain::test

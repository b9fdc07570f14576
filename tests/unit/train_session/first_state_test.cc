// State that the first rank alone keeps up to date: it counts the steps in which it was first, and check_audit()
// compares what the workers hold after each step. Where values travel in each step, what others write leaves nothing
// behind.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "fake_run.h"
#include "held_state.h"

namespace elastictrain::test {
namespace {

// The first rank notes at the end how many steps its count lacks.
TestWorkerOptions with_count_of_the_first(std::uint64_t every_steps = 1) {
  TestWorkerOptions options;
  const auto count = std::make_shared<float>(0.0F);
  options.before_start = [=](Session& session) {
    session.share_first_tensor("count", count.get(), "F32", {}, every_steps);
  };
  options.in_step = [=](Session& session, std::uint64_t) {
    if (session.rank() == 0) *count += 1;
    if (session.rank() != 0 && every_steps == 1) *count = -1000;
  };
  options.at_end = [=](Session& session) {
    session.note("lacks", std::to_string(static_cast<long>(session.committed_step()) - static_cast<long>(*count)));
  };
  return options;
}

// Whichever worker that is at the end; those that were first before it and left have lower numbers.
std::string lack_of_the_first(const FakeRun& run) {
  std::string lack;
  for (const auto& [id, worker] : run.workers()) {
    if (const auto note = worker.notes.find("lacks"); note != worker.notes.end()) lack = note->second;
  }
  return lack;
}

TEST_CASE("what the first rank keeps reaches the worker that is first after it") {
  for (const bool overlap : {false, true}) {
    CAPTURE(overlap);
    auto options = with_count_of_the_first();
    options.overlap = overlap;
    FakeRun run(options);
    const auto workers = run.spawn_ready(4);
    run.change_to({workers[0], workers[1]});
    run.wait_step(workers[0], 5);
    run.change_to({workers[0], workers[1], workers[2]});
    run.wait_step(workers[0], run[workers[0]].heartbeat.step + 5);
    run.change_to({workers[1], workers[2], workers[3]});
    run.wait_step(workers[1], run[workers[1]].heartbeat.step + 5);
    run.change_to({workers[2], workers[3]});
    run.wait_step(workers[2], run[workers[2]].heartbeat.step + 5);
    run.stop_and_check();
    CHECK(lack_of_the_first(run) == "0");
  }
}

TEST_CASE("a joiner that is first keeps nothing in its first step and goes on with the others' values") {
  for (const bool overlap : {false, true}) {
    CAPTURE(overlap);
    auto options = with_count_of_the_first();
    options.overlap = overlap;
    options.parameters = 300'000;  // more than sockets hold: the state is still on its way when the first sum is there
    FakeRun run(options);
    const auto workers = run.spawn_ready(3);
    run.change_to({workers[0], workers[1]});
    run.wait_step(workers[0], 5);
    run.change_to({workers[2], workers[0], workers[1]});
    run.wait_step(workers[0], run[workers[0]].heartbeat.step + 5);
    run.stop_and_check();
    CHECK(lack_of_the_first(run) == "1");
  }
}

TEST_CASE("a first rank that is lost takes with it what it wrote since the last committed step") {
  for (const bool overlap : {false, true}) {
    for (const auto where : {Moment::kComputing, Moment::kBetweenBuckets, Moment::kUpdating}) {
      CAPTURE(overlap);
      CAPTURE(where);
      auto options = with_count_of_the_first();
      options.overlap = overlap;
      FakeRun run(options);
      const auto first = run.spawn_ready(dying(options, {where, 6}));
      auto workers = run.spawn_ready(2);
      run.change_to({first, workers[0], workers[1]});
      run.wait_exit(first);
      run.recover();
      run.wait_step(workers[0], 12);
      run.stop_and_check();
      const auto lacks = lack_of_the_first(run);
      CHECK((lacks == "0" || lacks == "1"));
    }
  }
}

TEST_CASE("what travels every third step is that old where it is needed") {
  auto options = with_count_of_the_first(3);
  FakeRun run(options);
  const auto first = run.spawn_ready(dying(options, {Moment::kComputing, 6}));
  const auto second = run.spawn_ready();
  run.change_to({first, second});
  run.wait_exit(first);
  run.recover();
  run.wait_step(second, 12);
  run.stop_and_check();
  const auto lacks = lack_of_the_first(run);
  CHECK((lacks == "2" || lacks == "3"));  // of the steps 4 and 5, and of 6 if the second worker had begun it
}

TEST_CASE("memory of the session holds values whose own memory is gone when a loss repeats their sum") {
  for (const bool overlap : {false, true}) {
    CAPTURE(overlap);
    TestWorkerOptions options;
    options.overlap = overlap;
    const auto sums = std::make_shared<std::vector<float*>>();
    options.in_step = [=](Session& session, std::uint64_t) {
      sums->clear();
      for (const float value : {1.0F, 2.0F}) {
        sums->push_back(static_cast<float*>(session.step_memory(sizeof value)));
        *sums->back() = value;
        session.sum(sums->back(), 1);
      }
    };
    options.between_steps = [=](Session& session, std::uint64_t) {
      if (*(*sums)[1] != 2 * *(*sums)[0]) session.note("wrong", "yes");
    };
    FakeRun run(options);
    run.lose_last_of_three(Moment::kBetweenBuckets, true);
    run.wait_step(run.members()[0], 20);
    run.stop_and_check();
    for (const auto& [id, worker] : run.workers()) CHECK_FALSE(worker.notes.contains("wrong"));
  }
}

TEST_CASE("alone, the first rank's state and the session's memory are there, too") {
  Session session;
  float best = 1;
  session.share_first_tensor("best", &best, "F32", {});
  CHECK_THROWS_AS(session.share_first_tensor("best", &best, "F32", {}), SessionError);
  CHECK_THROWS_AS(session.share_first_tensor("null", nullptr, "F32", {}), SessionError);
  CHECK_THROWS_AS(session.share_first_tensor("never", &best, "F32", {}, 0), SessionError);
  CHECK_THROWS_AS(session.step_memory(4), SessionError);
  session.set_data({.sample_count = 4, .batch = 2});
  REQUIRE(session.start());
  void* const before = session.step_memory(4);
  while (session.next_batch()) {
    CHECK(session.step_memory(4) == before);
    CHECK(session.step_memory(8) != before);
    best += 1;
    session.commit_step();
  }
  CHECK(best == 3);
}

}  // namespace
}  // namespace elastictrain::test

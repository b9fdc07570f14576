// State that the forward pass writes, as BatchNorm's statistics and counters: every worker's pass writes other values,
// and check_audit() compares what the workers hold after each step.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "fake_run.h"
#include "held_state.h"

namespace elastictrain::test {
namespace {

struct Statistics {
  float mean = 0;
  float count = 0;
};

struct Memory {
  Statistics live;
  Statistics begin;  // of the step
  float sent = 0;
  bool has_samples = false;
};

TestWorkerOptions with_statistics() {
  TestWorkerOptions options;
  const auto held = std::make_shared<Memory>();
  options.before_start = [held](Session& session) {
    held->live.mean = static_cast<float>(session.worker_id());
    session.share_forward_tensor("mean", &held->live.mean, "F32", {});
    session.share_forward_tensor("count", &held->live.count, "F32", {});
  };
  options.on_batch = [held](const Batch& batch) {
    held->has_samples = batch.local_samples != 0;
    held->begin = std::exchange(held->live, {std::nanf(""), -1000});
  };
  options.in_step = [held](Session& session, std::uint64_t) {
    held->sent = static_cast<float>(session.worker_id());
    session.all_reduce(&held->sent, 1);
  };
  // A worker without samples has the state's values instead of what its pass wrote.
  options.after_sums = [held](Session&, std::uint64_t) {
    const Statistics before = held->has_samples ? held->begin : held->live;
    held->live = {before.mean / 2 + held->sent, before.count + 1};
  };
  options.at_end = [held](Session& session) {
    session.note("counted", std::to_string(static_cast<Step>(held->live.count) - session.committed_step()));
  };
  return options;
}

TEST_CASE("what a forward pass writes reaches a joiner as of the last committed step") {
  for (const bool overlap : {false, true}) {
    auto options = with_statistics();
    options.overlap = overlap;
    options.parameters = 300'000;  // more than sockets hold, so that donors still read their state after the pass
    HeldGrowth growth(options);
    growth.let_go();
    growth.train_on_and_stop();
    CHECK(growth.run[growth.workers[0]].notes["counted"] == "0");
  }
}

TEST_CASE("what a forward pass writes in a step that is repeated or discarded leaves nothing behind") {
  for (const auto where : {Moment::kComputing, Moment::kBetweenBuckets, Moment::kUpdating, Moment::kOutside}) {
    CAPTURE(where);
    FakeRun run(with_statistics());
    const auto workers = run.lose_last_of_three(where, true);
    run.wait_step(workers[0], 20);
    run.stop_and_check();
    CHECK(run[workers[0]].notes["counted"] == "0");
  }
}

TEST_CASE("alone, the values of the forward pass stay as they are") {
  Session session;
  float value = 1;
  session.share_forward_tensor("value", &value, "F32", {});
  CHECK_THROWS_AS(session.share_forward_tensor("value", &value, "F32", {}), SessionError);
  CHECK_THROWS_AS(session.share_forward_tensor("null", nullptr, "F32", {}), SessionError);
  session.set_data({.sample_count = 4, .batch = 2});
  REQUIRE(session.start());
  while (session.next_batch()) {
    value += 1;
    session.commit_step();
  }
  CHECK(value == 3);
}

// The state is a copy of the program's memory: only the copy would be at the other address.
TEST_CASE("what a forward pass writes, and what the first rank keeps, cannot move") {
  Session session;
  float statistic = 1;
  float best = 1;
  float weight = 1;
  session.share_forward_tensor("statistic", &statistic, "F32", {});
  session.share_first_tensor("best", &best, "F32", {});
  session.share_tensor("weight", &weight, "F32", {});
  float elsewhere = 7;
  for (const std::string name : {"statistic", "best"}) {
    CHECK_THROWS_WITH_AS(session.move_state(name, &elsewhere),
                         doctest::Contains(("move_state(): \"" + name + "\" was shared with").c_str()), SessionError);
  }
  session.move_state("weight", &elsewhere);
  session.set_data({.sample_count = 2, .batch = 2});
  REQUIRE(session.start());
  while (session.next_batch()) {
    session.all_reduce(nullptr, 0);
    CHECK_THROWS_AS(session.move_state("best", &elsewhere), SessionError);
    session.commit_step();
  }
  CHECK(elsewhere == 7);
}

}  // namespace
}  // namespace elastictrain::test

// A program's own data in a step while a joiner's state is on its way. What it waits for is shown by the order of
// events: the test holds the state.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "fake_run.h"
#include "held_state.h"

namespace elastictrain::test {
namespace {

// Two sums at the begin of each step: no worker has the second one before all have returned from the first one.
TestWorkerOptions with_sums_at_the_begin() {
  TestWorkerOptions options;
  const auto sums = std::make_shared<std::vector<float>>();
  const auto ranks = std::make_shared<std::uint32_t>(0);
  options.in_step = [=](Session& session, std::uint64_t) {
    *ranks = session.world_size();
    *sums = {1, 2};
    session.sum(sums->data(), 1);
    session.sum(sums->data() + 1, 1);
    session.note("summed_in", std::to_string(session.generation()));
  };
  options.between_steps = [=](Session& session, std::uint64_t) {
    const auto n = static_cast<float>(*ranks);
    const bool is_right = *sums == std::vector<float>{n, 2 * n};
    if (session.world_size() >= *ranks && !is_right) session.note("wrong", "yes");
  };
  return options;
}

class Growth {
 public:
  explicit Growth(const TestWorkerOptions& options) : run(options), workers(run.spawn_ready(2)) {
    run.change_to(workers);
    run.wait_step(workers[0], 5);
    workers.push_back(run.spawn_ready());
    plan = run.plan(workers);
    state.stand_before(plan.members[2].endpoint);
    run.prepare(plan);
    for (const WorkerId worker : workers) {
      until([&] { return run[worker].prepared.contains(plan.generation); }, "the members to be prepared");
    }
    run.commit(plan);
    until([&] { return run[workers[2]].heartbeat.place != protocol::StepPlace::kStarting; }, "the joiner's first step");
  }

  void until(const std::function<bool()>& condition, const std::string& what) {
    run.wait_until([&] { return state.pump() && condition(); }, what);
  }
  void await_sums() {
    until([&] { return run[workers[0]].notes["summed_in"] == std::to_string(plan.generation); }, "the sums");
  }
  Step first_step() { return run[workers[0]].active.at(plan.generation).first_step; }
  void finish() {
    run.wait_step(run.members()[0], run[run.members()[0]].heartbeat.step + 10);
    run.stop_and_check();
    for (const auto& [id, worker] : run.workers()) CHECK_FALSE(worker.notes.contains("wrong"));
  }

  FakeRun run;
  HeldState state;
  std::vector<WorkerId> workers;
  protocol::GenerationPlan plan;
};

TEST_CASE("a program's own data at the begin of a step do not wait for a joiner's state; the step's end does") {
  for (const bool overlap : {false, true}) {
    for (const bool reduce : {false, true}) {
      CAPTURE(overlap);
      CAPTURE(reduce);
      auto options = with_sums_at_the_begin();
      options.overlap = overlap;
      options.reduce = reduce;
      Growth growth(options);
      growth.await_sums();
      growth.until([&] { return growth.state.holds_something(); }, "the state behind the headers");
      CHECK(growth.run[growth.workers[2]].heartbeat.step < growth.first_step());
      growth.state.let_go();
      growth.until([&] { return growth.run[growth.workers[2]].heartbeat.step > growth.first_step(); }, "a second step");
      growth.run.wait_swapped(growth.plan);
      growth.finish();
    }
  }
}

TEST_CASE("a donor that is lost after the step's own data, with the state still on its way") {
  for (const bool overlap : {false, true}) {
    auto options = with_sums_at_the_begin();
    options.overlap = overlap;
    Growth growth(options);
    growth.await_sums();
    growth.run.set_members(growth.workers);
    growth.run.follow(growth.plan);
    growth.run.kill(growth.workers[1]);
    growth.run.recover();
    growth.finish();
  }
}

}  // namespace
}  // namespace elastictrain::test

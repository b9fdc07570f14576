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

void await_sums(HeldGrowth& growth) {
  const auto generation = std::to_string(growth.plan.generation);
  growth.until([&] { return growth.run[growth.workers[0]].notes["summed_in"] == generation; }, "the sums");
}

void finish(HeldGrowth& growth) {
  growth.train_on_and_stop();
  for (const auto& [id, worker] : growth.run.workers()) CHECK_FALSE(worker.notes.contains("wrong"));
}

TEST_CASE("a program's own data at the begin of a step do not wait for a joiner's state; the step's end does") {
  for (const bool overlap : {false, true}) {
    for (const bool reduce : {false, true}) {
      CAPTURE(overlap);
      CAPTURE(reduce);
      auto options = with_sums_at_the_begin();
      options.overlap = overlap;
      options.reduce = reduce;
      HeldGrowth growth(options);
      await_sums(growth);
      growth.until([&] { return growth.state.holds_something(); }, "the state behind the headers");
      CHECK(growth.run[growth.workers[2]].heartbeat.step < growth.first_step());
      growth.let_go();
      finish(growth);
    }
  }
}

TEST_CASE("a joiner whose state ends on its way does not take the part that came for the whole") {
  HeldGrowth growth(TestWorkerOptions{});
  const WorkerId joiner = growth.workers[2];
  growth.until([&] { return growth.state.holds_something(); }, "the state behind the headers");
  growth.state.cut_off();
  growth.until([&] { return !growth.run[joiner].halts.empty(); }, "the joiner's report");
  const auto report = growth.run[joiner].halts.front();
  CHECK(report.reason.find("did not get the state") != std::string::npos);
  CHECK_FALSE(report.has_state);
  growth.run.set_members(growth.workers);
  growth.run.follow(growth.plan);
  growth.run.recover();
  finish(growth);
}

TEST_CASE("a donor that is lost after the step's own data, with the state still on its way") {
  for (const bool overlap : {false, true}) {
    auto options = with_sums_at_the_begin();
    options.overlap = overlap;
    HeldGrowth growth(options);
    await_sums(growth);
    growth.run.set_members(growth.workers);
    growth.run.follow(growth.plan);
    growth.run.kill(growth.workers[1]);
    growth.run.recover();
    finish(growth);
  }
}

}  // namespace
}  // namespace elastictrain::test

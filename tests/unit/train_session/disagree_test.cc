// Ranks that disagree: what a worker reports, and how it goes on or fails as the supervisor says.
#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_run.h"

namespace elastictrain::test {
namespace {

bool has_reported(const WorkerRecord& worker) {
  return std::any_of(worker.halts.begin(), worker.halts.end(), [](const auto& halted) { return halted.disagrees; });
}

// Sees another value while three workers train.
TestWorkerOptions disagreeing() {
  TestWorkerOptions options;
  options.after_sums = [](Session& session, std::uint64_t) {
    if (session.world_size() != 3 || session.worker_id() == 3) return;
    session.disagree("the counter is 7 here and 8 at rank 2");
    if (session.worker_id() == 1) session.note("went_on", "after the disagreement");
  };
  return options;
}

struct ThreeWorkers {
  FakeRun run{disagreeing()};
  std::vector<WorkerId> workers = run.spawn_ready(2);

  ThreeWorkers() {
    run.change_to(workers);
    run.wait_step(workers[0], 5);
    workers.push_back(run.spawn_ready());
    run.change_to(workers);
    run.wait_until([this] { return has_reported(run[workers[0]]) || has_reported(run[workers[1]]); }, "the report");
  }
};

TEST_CASE("a worker that disagrees says why, and goes on with the repeated step when the newest is gone") {
  ThreeWorkers three;
  FakeRun& run = three.run;
  const auto& halts = has_reported(run[three.workers[0]]) ? run[three.workers[0]].halts : run[three.workers[1]].halts;
  const auto told = std::find_if(halts.begin(), halts.end(), [](const auto& halted) { return halted.disagrees; });
  CHECK(told->reason.find("the counter is 7 here") != std::string::npos);
  CHECK(told->generation == 2);
  CHECK(told->has_state);
  run.kill(three.workers[2]);
  run.wait_exit(three.workers[2]);
  run.recover();
  run.wait_until([&] { return run[three.workers[0]].notes.contains("went_on"); }, "the end of the call");
  run.wait_step(three.workers[0], 20);
  run.stop_and_check();
}

TEST_CASE("where nobody is newer the program of the worker that disagrees fails") {
  ThreeWorkers three;
  FakeRun& run = three.run;
  const auto sees = has_reported(run[three.workers[0]]) ? three.workers[0] : three.workers[1];
  run.tell_disagreed(sees, "the counter is 7 here and 8 at rank 2");
  run.wait_exit(sees);
  CHECK(run[sees].exit_code == kExitSessionError);
  const auto other = sees == three.workers[0] ? three.workers[1] : three.workers[0];
  for (const auto worker : {other, three.workers[2]}) run.kill(worker);
}

TEST_CASE("a worker that ends its training alone says so, and one that ends with the others does not") {
  TestWorkerOptions options{.max_steps = 9};
  FakeRun run(options);
  const auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_all_exited();
  for (const auto worker : workers) CHECK_FALSE(run[worker].finished->alone);
  options.max_steps = 0;
  options.between_steps = [](Session& session, std::uint64_t step) {
    if (step != 5 || session.outcome() != Outcome::kRunning) return;
    session.finish();
    std::_Exit(kExitFinished);
  };
  FakeRun other(options);
  const auto alone = other.spawn_ready();
  other.change_to({alone});
  other.wait_exit(alone);
  CHECK(other[alone].finished->alone);
}

TEST_CASE("a worker that cannot join says why before it ends") {
  TestWorkerOptions options;
  options.before_start = [](Session& session) {
    session.decline("the second loop cannot be entered: train.py line 12");
    session.finish();
    std::_Exit(kExitFinished);
  };
  FakeRun run(options);
  const auto worker = run.spawn();
  run.wait_exit(worker);
  CHECK(run[worker].declines == "the second loop cannot be entered: train.py line 12");
}

TEST_CASE("alone a disagreement is an error, and declining changes nothing") {
  Session session;
  float weights = 0;
  session.share_model("weights", &weights, 1);
  session.set_data({.sample_count = 4});
  session.decline("nobody hears it");
  CHECK_THROWS_AS(session.disagree("too early"), SessionError);
  REQUIRE(session.start());
  CHECK_THROWS_AS(session.decline("too late"), SessionError);
  REQUIRE(session.next_batch());
  CHECK_THROWS_AS(session.disagree("with whom"), SessionError);
}

}  // namespace
}  // namespace elastictrain::test

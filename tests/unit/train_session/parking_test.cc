// Processes that outlive their workers, as MPI's ranks do, without any MPI: what a worker leaves behind, and how the
// next one begins in the middle of the program's loop.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "fake_run.h"
#include "tests/unit/checkpoint/directory.h"

namespace elastictrain::test {
namespace {

using checkpoint::test::Directory;
using protocol::Synchronization;

struct Pool : FakeRun {
  explicit Pool(TestWorkerOptions options = {}) : FakeRun(options) { set_environment("ELASTICTRAIN_PARKS", "1"); }

  void train_some_steps() {
    for (const WorkerId worker : members()) wait_step(worker, committed_first_step() + 6);
  }

 private:
  // Of the newest generation.
  Step committed_first_step() {
    Step first = 0;
    for (const WorkerId worker : members()) {
      const auto& record = (*this)[worker];
      wait_until([&] { return record.active.contains(generation()); }, to_string(worker) + " to be active");
      first = std::max(first, record.active.at(generation()).first_step);
    }
    return first;
  }
};

TEST_CASE("a leaver parks, and its process joins again as another worker, with the state and an empty batch") {
  Pool run;
  const auto workers = run.spawn_ready(3);
  run.change_to(workers);
  run.train_some_steps();
  run.change_to({workers[0], workers[2]});
  run.wait_parked(workers[1]);
  CHECK(run[workers[1]].parked->last_step == run[workers[1]].left->last_step);
  run.train_some_steps();
  const WorkerId next = run.reassign(workers[1]);
  CHECK(run[next].ready->state_bytes == run[workers[1]].ready->state_bytes);
  run.train_some_steps();  // it waits as a spare does
  run.change_to({workers[0], workers[2], next});
  run.train_some_steps();
  const auto& active = run[next].active.at(run.generation());
  CHECK(active.state_transfer_bytes == 24'000);
  run.wait_until([&] { return !run[next].audit.empty(); }, "its first account");
  const auto& first = run[next].audit.front();
  CHECK(first.step == active.first_step);
  CHECK(first.count == 0);
  CHECK(run[next].heartbeat.generation == run.generation());
  run.stop_and_check();
}

TEST_CASE("a parked process that is dismissed, or loses its agent, ends as one that left") {
  Pool run;
  run.set_environment("ELASTICTRAIN_ORPHAN_GRACE_MS", "200");
  const auto workers = run.spawn_ready(4);
  run.change_to(workers);
  run.train_some_steps();
  run.change_to({workers[0]});
  run.wait_parked(workers[1]);
  run.dismiss(workers[1]);
  run.wait_exit(workers[1]);
  CHECK(run[workers[1]].exit_code == kExitLeft);
  const WorkerId waits = run.reassign(workers[2]);
  run.dismiss(waits);
  run.wait_exit(waits);
  CHECK(run[waits].exit_code == kExitLeft);
  run.wait_parked(workers[3]);
  run.stop_listening();
  run.close_socket(workers[3]);
  run.wait_exit(workers[3]);
  CHECK(run[workers[3]].exit_code == kExitLeft);
  run.train_some_steps();
  run.stop_and_check();
}

TEST_CASE("one process is three workers, the first of all ranks among them") {
  const TestWorkerOptions options{.shares_own_data = true, .uses_store = true, .schedule = "2:1000000"};
  Pool run(options);
  const auto workers = run.spawn_ready(2, options);
  run.change_to(workers);
  run.train_some_steps();
  CHECK(run[workers[0]].requests.size() == 1);
  WorkerId mover = workers[0];
  for (int life = 0; life < 2; ++life) {
    run.change_to({workers[1]});
    run.train_some_steps();
    mover = run.reassign(mover);
    run.change_to({mover, workers[1]});
    run.train_some_steps();
    run.wait_until([&] { return !run[mover].audit.empty(); }, "its first account");
    // Requests of another worker count for that one.
    CHECK(run[mover].requests.size() == 1);
    CHECK(run[mover].audit.front().step == run[mover].active.at(run.generation()).first_step);
  }
  run.stop_and_check();
}

TEST_CASE("the data ends for processes that were other workers as for any") {
  const TestWorkerOptions options{.sample_count = 999, .epochs = 30};
  Pool run(options);
  auto workers = run.spawn_ready(2, options);
  // Alone it would reach the end of the data before a communicator of GPUs is built.
  workers.push_back(run.spawn_ready(waiting(options, {Moment::kComputing, 1000})));
  run.change_to(workers);
  run.wait_step(workers[0], 3);
  run.change_to({workers[2]});
  const std::vector<WorkerId> next{run.reassign(workers[0]), run.reassign(workers[1])};
  const auto plan = run.plan({next[1], workers[2], next[0]});
  run.prepare(plan);
  run.wait_prepared(plan);
  run.commit(plan);
  run.let_go();
  run.wait_swapped(plan);
  run.wait_all_exited();
  for (const WorkerId worker : {next[0], next[1], workers[2]}) {
    CHECK(run[worker].exit_code == kExitFinished);
    CHECK(run[worker].finished.has_value());
  }
  run.check_audit();
}

TEST_CASE("the checkpoint that a leaver is writing is on the disk before it parks, and is what it had") {
  Directory directory;
  const TestWorkerOptions options{.parameters = 2'000'000};
  Pool run(options);
  run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
  run.set_environment("ELASTICTRAIN_CHECKPOINT_EVERY", "1");
  run.set_environment("ELASTICTRAIN_CHECKPOINT_KEEP", "100");
  const auto workers = run.spawn_ready(2, options);
  run.change_to(workers, {1, 1});  // a gradient of this size takes long to compute
  run.wait_step(workers[1], 3);
  run.change_to({workers[1]}, {1});
  run.wait_parked(workers[0]);
  const auto last = run[workers[0]].parked->last_step;
  const auto names = directory.names();
  // The other one goes on writing, in its own generation.
  const bool is_written = std::none_of(names.begin(), names.end(),
                                       [](const auto& name) { return name.find(".tmp.gen-1") != std::string::npos; });
  // A disk that is too slow does not keep it from leaving, and it says so.
  const bool was_late = run[workers[0]].notes.contains("checkpoint_late");
  CHECK((was_late || (is_written && names.contains("step-" + std::to_string(last) + ".gen-1.json"))));
  const WorkerId next = run.reassign(workers[0]);
  run.change_to({next, workers[1]});
  run.wait_step(next, run[next].active.at(run.generation()).first_step + 3);
  run.stop_and_check();
}

TEST_CASE(
    "replicas that differ: a process that becomes another worker starts from a donor's replica, not from its own") {
  for (const auto averaging : {Synchronization::kAveraging, Synchronization::kPairAveraging}) {
    Pool run({.sample_count = 333, .parameters = 20'003});
    run.synchronize_by(averaging);
    const auto workers = run.spawn_ready(3);
    run.change_to(workers);
    run.train_some_steps();
    run.change_to({workers[0], workers[1]});
    run.train_some_steps();
    const WorkerId next = run.reassign(workers[2]);
    run.change_to({next, workers[0], workers[1]});
    run.train_some_steps();
    run.synchronize_by(Synchronization::kGradients);
    run.change_to(run.members());
    run.train_some_steps();
    run.stop_and_check();
  }
}

TEST_CASE("a worker omitted from a recovery gives up its step, parks at its end, and can come back") {
  const TestWorkerOptions options;
  Pool run;
  const auto workers = run.spawn_ready(2);
  const WorkerId third = run.spawn_ready(dying(options, {Moment::kBetweenBuckets, 7}));
  run.change_to({workers[0], workers[1], third});
  run.wait_exit(third);
  auto alone = run.recovery_plan(run.abort());
  alone.members.pop_back();
  alone.donors.pop_back();
  run.prepare_for(alone, workers);
  run.wait_prepared(alone);
  run.commit_for(alone, workers);
  run.set_members({workers[0]});
  run.wait_parked(workers[1]);
  run.wait_step(workers[0], alone.resume_step + 5);
  run.follow(alone);
  const WorkerId next = run.reassign(workers[1]);
  run.change_to({workers[0], next});
  run.train_some_steps();
  run.stop_and_check();
}

TEST_CASE("a process that was another worker takes part in a recovery, as a spare and as a holder") {
  Pool run;
  const auto workers = run.spawn_ready(4);
  run.change_to(workers);
  run.train_some_steps();
  run.change_to({workers[0], workers[1], workers[2]});
  const WorkerId spare = run.reassign(workers[3]);
  run.train_some_steps();
  run.kill(workers[0]);
  run.recover({spare});
  run.train_some_steps();
  CHECK(run[spare].active.contains(run.generation()));
  run.kill(workers[1]);
  run.recover();
  run.train_some_steps();
  run.stop_and_check();
}

TEST_CASE("a used process cannot begin a run when no worker with the state is left") {
  Pool run;
  const auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.train_some_steps();
  run.change_to({workers[1]});
  const WorkerId next = run.reassign(workers[0]);
  run.kill(workers[1]);
  run.recover();
  const auto plan = run.plan({next});
  run.prepare(plan);
  run.wait_prepared(plan);
  run.commit(plan);
  run.wait_exit(next);
  CHECK(run[next].exit_code == kExitSessionError);
}

}  // namespace
}  // namespace elastictrain::test

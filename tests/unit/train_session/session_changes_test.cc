#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "fake_run.h"
#include "train/state/sampler.h"

namespace elastictrain::test {
namespace {

TEST_CASE("two workers that start from different weights train to the end as one") {
  FakeRun run({.sample_count = 333, .epochs = 2});
  const auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_all_exited();
  for (const WorkerId worker : workers) {
    CHECK(run[worker].exit_code == kExitFinished);
    REQUIRE(run[worker].finished);
    CHECK(run[worker].finished->last_step == 42);
    CHECK(run[worker].ready->state_bytes == 24'000);
    CHECK(run[worker].ready->sample_count == 333);
  }
  run.check_audit();
}

TEST_CASE("a worker whose model is not the first rank's at the start names what was replaced") {
  FakeRun run({.max_steps = 3});
  const auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_all_exited();
  CHECK(run[workers[1]].notes["state_replaced"].starts_with("\"weights\" began with other values"));
  CHECK_FALSE(run[workers[0]].notes.contains("state_replaced"));
}

TEST_CASE("a worker that joins gets the state and takes part in its first step with an empty batch") {
  FakeRun run;
  auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_step(workers[0], 5);
  workers.push_back(run.spawn_ready());
  run.change_to(workers);
  run.wait_until([&] { return !run[workers[2]].audit.empty(); }, "the joiner's audit");
  CHECK(run[workers[2]].active.at(2).state_transfer_bytes == 24'000);
  const auto& first = run[workers[2]].audit.front();
  CHECK(first.step == run[workers[2]].active.at(2).first_step);
  CHECK(first.count == 0);
  run.stop_and_check();
}

TEST_CASE("workers that leave end with success and the others continue") {
  FakeRun run;
  const auto workers = run.spawn_ready(3);
  run.change_to(workers);
  run.wait_step(workers[0], 5);
  run.change_to({workers[0], workers[2]});
  run.wait_exit(workers[1]);
  CHECK(run[workers[1]].exit_code == kExitLeft);
  CHECK(run[workers[1]].left->last_step + 1 == run[workers[0]].active.at(2).first_step);
  run.wait_step(workers[0], run[workers[1]].left->last_step + 10);
  run.stop_and_check();
}

// A sanitizer's own memory has page faults as well.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a joiner of a model has memory for copies of its gradients before others wait for it") {
  constexpr std::size_t kParameters = 400'000;
  constexpr long kPagesOfCopies = kParameters * sizeof(float) / 4096;
  for (const bool shares_model : {true, false}) {
    for (const bool overlap : {true, false}) {
      CAPTURE(shares_model);
      CAPTURE(overlap);
      FakeRun run({.parameters = kParameters,
                   .step_time_us = 5'000,
                   .overlap = overlap,
                   .shares_model = shares_model,
                   .notes_faults = true});
      const auto workers = run.spawn_ready(2);
      run.change_to({workers[0]});
      run.wait_step(workers[0], 3);
      run.change_to({workers[1], workers[0]});
      auto& notes = run[workers[1]].notes;
      run.wait_until([&] { return notes.contains("faults_of_second_step"); }, "the joiner's second step");
      // A model tells how large the gradients will be, so their copies are there before the joiner is ready. Otherwise
      // it finds out in its first step, while the others compute.
      if (shares_model) CHECK(std::stol(notes["faults_of_first_step"]) < kPagesOfCopies / 2);
      CHECK(std::stol(notes["faults_of_second_step"]) < kPagesOfCopies / 2);
      run.stop_and_check();
    }
  }
}
#endif

TEST_CASE("a worker that would get parts of different states ends, and the others train on") {
  TestWorkerOptions options;
  const auto own = std::make_shared<float>(1.0F);
  options.before_start = [own](Session& session) { session.share_state("own", own.get(), sizeof *own); };
  options.between_steps = [own](Session& session, std::uint64_t step) {
    if (step == 3 && session.rank() == 1) *own = 2;
  };
  FakeRun run(options);
  const auto workers = run.spawn_ready(3);
  run.change_to({workers[0], workers[1]});
  run.wait_step(workers[0], 5);
  const auto plan = run.plan(workers);
  run.prepare(plan);
  run.wait_prepared(plan);
  run.commit(plan);
  run.wait_exit(workers[2]);
  CHECK(run[workers[2]].exit_code == kExitSessionError);
  run.recover();
  run.wait_step(workers[0], run[workers[0]].heartbeat.step + 3);
  run.stop();
  run.wait_all_exited();
  CHECK(run[workers[0]].exit_code == kExitStopped);
  CHECK(run[workers[1]].exit_code == kExitStopped);
}

TEST_CASE("rank 0 can be replaced") {
  FakeRun run;
  const auto workers = run.spawn_ready(3);
  run.change_to({workers[0], workers[1]});
  run.wait_step(workers[1], 5);
  run.change_to({workers[2], workers[1]});
  run.wait_exit(workers[0]);
  CHECK(run[workers[0]].exit_code == kExitLeft);
  run.wait_step(workers[2], 20);
  run.stop_and_check();
}

TEST_CASE("all but one can leave, and the one can grow again") {
  FakeRun run;
  auto workers = run.spawn_ready(4);
  run.change_to(workers);
  run.wait_step(workers[0], 3);
  run.change_to({workers[2]});
  const auto alone_since = run[workers[2]].active.at(2).first_step;
  run.wait_step(workers[2], alone_since + 3);
  const auto joiners = run.spawn_ready(2);
  run.change_to({joiners[0], workers[2], joiners[1]});
  run.wait_step(joiners[0], alone_since + 10);
  run.stop_and_check();
}

TEST_CASE("changes that follow each other at once keep every state equal") {
  FakeRun run({.parameters = 300'000});
  auto workers = run.spawn_ready(4);
  run.change_to({workers[0]});
  run.change_to({workers[0], workers[1]});
  run.change_to({workers[1], workers[2], workers[0]});
  run.change_to({workers[2], workers[3]});
  run.change_to({workers[3]});
  run.wait_step(workers[3], run[workers[3]].active.at(5).first_step + 5);
  run.stop_and_check();
}

TEST_CASE("a cancelled plan changes nothing, before and after it is built") {
  FakeRun run;
  const auto workers = run.spawn_ready(3);
  run.change_to({workers[0], workers[1]});
  const auto built = run.plan(workers);
  run.prepare(built);
  run.wait_prepared(built);
  run.cancel(built);
  const auto racing = run.plan(workers);
  run.prepare(racing);
  run.cancel(racing);
  run.commit(racing);  // too late: the plan is gone
  run.wait_step(workers[0], run[workers[0]].heartbeat.step + 10);
  CHECK(run[workers[0]].active.size() == 1);
  CHECK(run[workers[2]].active.empty());
  run.change_to(workers);
  run.wait_step(workers[2], run[workers[2]].active.begin()->second.first_step + 5);
  run.stop_and_check();
}

TEST_CASE("a plan in which only one member sums over MPI fails, and the error names the setting") {
  FakeRun run;
  const auto workers = run.spawn_ready(2);
  auto plan = run.plan(workers);
  plan.members[1].endpoint.mpi_rank = 1;
  run.prepare(plan);
  run.wait_until([&] { return run[workers[0]].prepare_failed.contains(plan.generation); }, "the failure");
  const auto& why = run[workers[0]].prepare_failed.at(plan.generation);
  CHECK(why.find("worker 2 is a rank of an MPI launch, unlike this one") != std::string::npos);
  CHECK(why.find("ELASTICTRAIN_BACKEND") != std::string::npos);
  for (const WorkerId worker : workers) run.dismiss(worker);
  run.wait_all_exited();
}

TEST_CASE("a newer plan supersedes one that is still being built") {
  FakeRun run;
  const auto workers = run.spawn_ready(4);
  run.change_to({workers[0], workers[1]});
  const auto older = run.plan({workers[0], workers[1], workers[2]});
  run.prepare_for(older,
                  {workers[0], workers[1]});  // the joiner never receives it, so no member can finish building it
  const auto newer = run.plan({workers[0], workers[1], workers[3]});
  run.prepare(newer);
  run.wait_prepared(newer);
  CHECK_FALSE(run[workers[0]].prepared.contains(older.generation));
  run.commit(newer);
  run.wait_swapped(newer);
  run.wait_step(workers[3], run[workers[3]].active.begin()->second.first_step + 5);
  run.dismiss(workers[2]);
  run.wait_exit(workers[2]);
  CHECK(run[workers[2]].exit_code == kExitDismissed);
  run.stop_and_check();
}

TEST_CASE("a spare that is not needed is dismissed with success") {
  FakeRun run;
  const auto spare = run.spawn_ready();
  run.dismiss(spare);
  run.wait_exit(spare);
  CHECK(run[spare].exit_code == kExitDismissed);
  CHECK_FALSE(run[spare].finished);
}

TEST_CASE("a plan that cannot be built is refused with its reason and the run continues") {
  FakeRun run;
  const auto workers = run.spawn_ready(2);
  run.change_to(workers);
  auto bad = run.plan(workers, {0, 0});
  run.prepare(bad);
  run.wait_until([&] { return run[workers[0]].prepare_failed.contains(bad.generation); }, "the refusal");
  CHECK(run[workers[0]].prepare_failed[bad.generation].find("samples") != std::string::npos);
  run.wait_step(workers[0], run[workers[0]].heartbeat.step + 5);
  run.stop_and_check();
}

// The mean gradient of one process over the same global batch.
double reference_gradient(std::uint64_t samples, std::uint64_t total, std::size_t parameter) {
  const state::Permutation permutation(samples, 5, 0);
  double sum = 0;
  for (std::uint64_t i = 0; i < total; ++i) sum += sample_gradient(permutation.at(i), parameter);
  return sum / static_cast<double>(total);
}

TEST_CASE("gradients are weighted by samples: uneven shares give the update of one process") {
  FakeRun run({.sample_count = 1000, .max_steps = 1, .parameters = 300, .note_gradient_of_step = "1"});
  const auto workers = run.spawn_ready(3);
  run.change_to(workers, {3, 17, 40});
  run.wait_all_exited();
  for (const std::size_t parameter : {0, 150, 299}) {
    const double noted = run.noted_gradient(workers[0], parameter);
    const double expected = reference_gradient(1000, 60, parameter);
    CHECK(std::abs(noted - expected) <= 1e-6 * std::abs(expected));
  }
}

TEST_CASE("a program that reduces nothing still changes size at its steps") {
  FakeRun run({.sample_count = 0, .reduce = false});
  const auto workers = run.spawn_ready(3);
  run.change_to({workers[0], workers[1]});
  run.wait_step(workers[0], 5);
  run.change_to({workers[0], workers[2]});
  run.wait_step(workers[2], 10);
  run.stop();
  run.wait_all_exited();
  CHECK(run[workers[2]].exit_code == kExitStopped);
}

TEST_CASE("a program that fails in the middle of a step ends at once and takes the others out of their wait") {
  FakeRun run;
  const WorkerId failing = run.spawn({.quits_in_the_middle = true});
  const WorkerId other = run.spawn();
  run.wait_until([&] { return run[failing].ready && run[other].ready; }, "both to be ready");
  run.change_to({failing, other});
  run.wait_exit(failing);
  CHECK(run[failing].exit_code == kExitSessionError);
  CHECK_FALSE(run[failing].finished);
  run.wait_until([&] { return !run[other].halts.empty(); }, "the other to be halted");
  CHECK(run[other].halts.front().fence == 0);
  CHECK(run[other].halts.front().committed_step == 2);
  CHECK(run[other].halts.front().reason.find("step 3") != std::string::npos);
  run.recover();
  run.wait_step(other, 10);
  run.stop();
  run.wait_exit(other);
  CHECK(run[other].exit_code == kExitStopped);
  run.check_audit();
}

TEST_CASE("workers that lose their agent train on and stop together after the grace") {
  FakeRun run;
  run.set_environment("ELASTICTRAIN_ORPHAN_GRACE_MS", "300");
  const auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_step(workers[0], 5);
  run.stop_listening();
  for (const WorkerId worker : workers) run.close_socket(worker);
  run.wait_all_exited();
  for (const WorkerId worker : workers) CHECK(run[worker].exit_code == kExitStopped);
}

TEST_CASE("a worker that loses its agent for a moment reconnects and continues") {
  FakeRun run;
  const auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.close_socket(workers[0]);
  run.wait_until([&] { return run[workers[0]].hellos == 2; }, "the worker to come back");
  run.wait_step(workers[0], run[workers[1]].heartbeat.step + 5);
  run.stop();
  run.wait_all_exited();
  CHECK(run[workers[0]].exit_code == kExitStopped);
}

TEST_CASE("a spare without an agent ends after the grace") {
  FakeRun run;
  run.set_environment("ELASTICTRAIN_ORPHAN_GRACE_MS", "100");
  const auto spare = run.spawn_ready();
  run.stop_listening();
  run.close_socket(spare);
  run.wait_exit(spare);
  CHECK(run[spare].exit_code == kExitStopped);
}

}  // namespace
}  // namespace elastictrain::test

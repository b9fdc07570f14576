#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "device_arrays.h"
#include "fake_run.h"
#include "supervisor/protocol/worker_messages.h"
#include "train/state/sampler.h"

namespace elastictrain::test {
namespace {

void train_on_and_check(FakeRun& run) {
  const WorkerId first = run.members().front();
  run.wait_step(first, run.committed().at(run.generation()).resume_step + 10);
  run.stop_and_check();
}

// Three workers, of which one is lost at `moment`; the others recover. Returns the step from which they continued.
Step lose_one(FakeRun& run, const TestWorkerOptions& options, Moment moment) {
  auto workers = run.spawn_ready(2, options);
  workers.push_back(run.spawn_ready(dying(options, moment)));
  run.change_to(workers);
  run.wait_exit(workers[2]);
  CHECK(run[workers[2]].exit_code == 128 + 9);
  run.recover();
  // One that had not finished the step that the lost worker had comes after those that had.
  auto members = run.members();
  std::sort(members.begin(), members.end());
  CHECK(members == std::vector<WorkerId>{workers[0], workers[1]});
  const Step resumed = run.committed().at(run.generation()).resume_step;
  train_on_and_check(run);
  return resumed;
}

TEST_CASE("a worker dies before the all-reduce: the others repeat only the all-reduce, its samples return") {
  for (const bool overlap : {true, false}) {
    for (const std::size_t parameters : {3000, 7, 300'001}) {
      CAPTURE(overlap);
      CAPTURE(parameters);
      const TestWorkerOptions options{.sample_count = 333, .parameters = parameters, .overlap = overlap};
      FakeRun run(options);
      CHECK(lose_one(run, options, {Moment::kComputing, 5}) == 4);
    }
  }
}

TEST_CASE("a worker dies between two buckets: both are repeated from copies of what went into them") {
  for (const bool overlap : {true, false}) {
    for (const bool tcp : {false, true}) {
      CAPTURE(overlap);
      CAPTURE(tcp);
      const TestWorkerOptions options{.parameters = 20'003, .overlap = overlap};
      FakeRun run(options);
      if (tcp) run.set_environment("ELASTICTRAIN_TRANSPORT", "tcp");
      CHECK(lose_one(run, options, {Moment::kBetweenBuckets, 5}) == 4);
    }
  }
}

// The third of three workers dies in the run's only step; the others repeat it. Returns them.
std::vector<WorkerId> lose_one_in_the_only_step(FakeRun& run, const TestWorkerOptions& options) {
  auto workers = run.spawn_ready(2, options);
  const WorkerId third = run.spawn_ready(dying(options, {Moment::kBetweenBuckets, 1}));
  run.change_to({workers[0], workers[1], third}, {3, 17, 40});
  run.wait_exit(third);
  run.recover();
  run.wait_all_exited();
  return workers;
}

TEST_CASE("what is repeated is the mean over the survivors' samples, in every bucket") {
  for (const bool overlap : {true, false}) {
    const TestWorkerOptions options{
        .sample_count = 1000, .max_steps = 1, .parameters = 300, .overlap = overlap, .note_gradient_of_step = "1"};
    FakeRun run(options);
    const auto workers = lose_one_in_the_only_step(run, options);
    const state::Permutation permutation(1000, 5, 0);
    for (const std::size_t parameter : {0, 150, 299}) {
      double expected = 0;
      for (std::uint64_t i = 0; i < 20; ++i) expected += sample_gradient(permutation.at(i), parameter) / 20;
      const double noted = run.noted_gradient(workers[0], parameter);
      CHECK(std::abs(noted - expected) <= 1e-6 * std::abs(expected));
    }
  }
}

TEST_CASE("gradients of 16 bits are summed in single precision and rounded once, also when they are repeated") {
  for (const bool overlap : {true, false}) {
    const TestWorkerOptions options{.sample_count = 1000,
                                    .max_steps = 1,
                                    .parameters = 300,
                                    .overlap = overlap,
                                    .narrow = true,
                                    .note_gradient_of_step = "1"};
    FakeRun run(options);
    const auto workers = lose_one_in_the_only_step(run, options);
    const state::Permutation permutation(1000, 5, 0);
    for (const std::size_t parameter : {0, 150, 299}) {
      double expected = 0;
      double largest = 0;
      for (std::uint64_t i = 0; i < 20; ++i) {
        expected += sample_gradient(permutation.at(i), parameter) / 20;
        largest = std::max(largest, std::abs(sample_gradient(permutation.at(i), parameter)));
      }
      const double noted = run.noted_gradient(workers[0], parameter);
      CHECK(std::abs(noted - expected) <= largest / 128);
      CHECK(noted != 0);
    }
  }
}

// A worker that leaves the fifth sum first may die before the others have left it. They then repeat that sum.
bool is_fifth_or_repeated(Step resumed) {
  return resumed == 5 || resumed == 4;
}

TEST_CASE("a worker dies in its update: its gradient counts, and the others tell of its samples") {
  const TestWorkerOptions options;
  FakeRun run(options);
  CHECK(is_fifth_or_repeated(lose_one(run, options, {Moment::kUpdating, 5})));
}

TEST_CASE("a worker dies outside of a step") {
  const TestWorkerOptions options;
  FakeRun run(options);
  CHECK(is_fifth_or_repeated(lose_one(run, options, {Moment::kOutside, 5})));
}

TEST_CASE("in the last step of an epoch a dead worker's samples are used before the next epoch begins") {
  const TestWorkerOptions options{.sample_count = 333, .epochs = 3};
  FakeRun run(options);
  auto workers = run.spawn_ready(2, options);
  workers.push_back(run.spawn_ready(dying(options, {Moment::kComputing, 14})));
  run.change_to(workers);
  run.wait_exit(workers[2]);
  run.recover();
  for (const WorkerId worker : run.members()) {
    run.wait_exit(worker);
    CHECK(run[worker].exit_code == kExitFinished);
  }
  run.check_audit();
}

TEST_CASE("two of four die at once") {
  const TestWorkerOptions options;
  FakeRun run(options);
  auto workers = run.spawn_ready(2, options);
  workers.push_back(run.spawn_ready(dying(options, {Moment::kComputing, 6})));
  workers.push_back(run.spawn_ready(dying(options, {Moment::kBetweenBuckets, 6})));
  run.change_to(workers);
  run.wait_exit(workers[2]);
  run.kill(workers[3]);
  run.recover();
  train_on_and_check(run);
}

TEST_CASE("the only survivor continues alone, and grows again") {
  const TestWorkerOptions options;
  FakeRun run(options);
  auto workers = run.spawn_ready(1, options);
  workers.push_back(run.spawn_ready(dying(options, {Moment::kBetweenBuckets, 4})));
  run.change_to(workers);
  run.wait_exit(workers[1]);
  run.recover();
  const WorkerId fresh = run.spawn_ready(options);
  run.change_to({workers[0], fresh});
  run.wait_step(fresh, run[fresh].active.begin()->second.first_step + 5);
  run.stop_and_check();
}

TEST_CASE("a spare takes part in the recovery itself") {
  const TestWorkerOptions options;
  FakeRun run(options);
  auto workers = run.spawn_ready(2, options);
  const WorkerId spare = run.spawn_ready(options);
  workers.push_back(run.spawn_ready(dying(options, {Moment::kBetweenBuckets, 5})));
  run.change_to(workers);
  run.wait_exit(workers[2]);
  run.recover({spare});
  run.wait_step(spare, 15);
  CHECK(run[spare].active.begin()->second.first_step == 5);
  run.stop_and_check();
}

TEST_CASE(
    "a member of the recovery dies before it repeats anything: the next recovery continues from the same gradients") {
  const TestWorkerOptions options;
  FakeRun run(options);
  auto workers = run.spawn_ready(3, options);
  workers.push_back(run.spawn_ready(dying(options, {Moment::kBetweenBuckets, 5})));
  run.change_to(workers);
  run.wait_exit(workers[3]);
  const auto doomed = run.recovery_plan(run.abort());
  run.prepare(doomed);
  run.wait_prepared(doomed);
  run.kill(workers[2]);
  run.commit(doomed);
  const auto failed_there = [&](WorkerId worker) {
    const auto& halts = run[worker].halts;
    return std::any_of(halts.begin(), halts.end(), [&](auto& halt) { return halt.generation == doomed.generation; });
  };
  run.wait_until([&] { return failed_there(workers[0]) && failed_there(workers[1]); }, "the repetition to fail");
  run.recover();
  CHECK(run.members() == std::vector<WorkerId>{workers[0], workers[1]});
  CHECK(run.committed().at(run.generation()).resume_step == 4);
  train_on_and_check(run);
}

TEST_CASE("a recovery that loses a member before its commit is cancelled, and another is made from the same answers") {
  const TestWorkerOptions options;
  FakeRun run(options);
  auto workers = run.spawn_ready(3, options);
  workers.push_back(run.spawn_ready(dying(options, {Moment::kComputing, 5})));
  run.change_to(workers);
  run.wait_exit(workers[3]);
  const Generation fence = run.abort();
  const auto doomed = run.recovery_plan(fence);
  run.prepare(doomed);
  run.kill(workers[2]);
  run.cancel(doomed);
  run.recover_with(run.recovery_plan(fence));
  CHECK(run[workers[0]].halts.size() <= 2);  // by itself, and the answer
  train_on_and_check(run);
}

TEST_CASE("a worker that is behind gives up its step, receives the state and joins again") {
  const TestWorkerOptions options;
  FakeRun run(options);
  const auto workers = run.spawn_ready(2, options);
  const WorkerId third = run.spawn_ready(dying(options, {Moment::kBetweenBuckets, 5}));
  run.change_to({workers[0], workers[1], third});
  run.wait_exit(third);
  // First a recovery without the second worker, which stays halted in its step 5 while the first goes on alone.
  auto alone = run.recovery_plan(run.abort());
  alone.members.pop_back();
  alone.donors.pop_back();
  run.recover_with(alone);
  run.wait_step(workers[0], 9);
  run.set_members(workers);
  run.recover();
  const auto& plan = run.committed().at(run.generation());
  REQUIRE(plan.members.size() == 2);
  CHECK(plan.members[1].worker == workers[1]);
  CHECK(plan.members[1].joiner);
  CHECK(plan.resume_step >= 9);
  run.wait_step(workers[1], plan.resume_step + 10);
  run.stop_and_check();
}

TEST_CASE("an Abort in the middle of a computation is answered at once, in an update after the commit") {
  const TestWorkerOptions options;
  FakeRun run(options);
  auto workers = run.spawn_ready(1, waiting(options, {Moment::kComputing, 7}));
  workers.push_back(run.spawn_ready(waiting(options, {Moment::kUpdating, 6})));
  run.change_to(workers);
  run.wait_step(workers[0], 6);
  const auto& other = run[workers[1]].heartbeat;
  run.wait_until([&] { return other.step == 5 && other.place == protocol::StepPlace::kUpdating; },
                 "the other one's update: its sums can end after those of the first");
  const Generation fence = run.new_fence();
  run.send_abort(fence, workers);
  run.wait_halted(fence, {workers[0]});
  CHECK(run.answer(workers[0], fence).committed_step == 6);
  CHECK(run[workers[1]].halts.empty());
  run.let_go();
  run.wait_halted(fence, {workers[1]});
  CHECK(run.answer(workers[1], fence).committed_step == 6);
  run.recover();
  train_on_and_check(run);
}

TEST_CASE("a member dies while a change is committed on some members only: none swaps, the change is void") {
  const TestWorkerOptions options;
  FakeRun run(options);
  auto workers = run.spawn_ready(3, options);
  run.change_to(workers);
  const WorkerId joiner = run.spawn_ready(options);
  const auto grown = run.plan({workers[0], workers[1], workers[2], joiner});
  run.prepare(grown);
  run.wait_prepared(grown);
  run.commit_for(grown, {workers[0], workers[1], joiner});
  run.wait_step(workers[0], run[workers[0]].heartbeat.step + 3);
  run.kill(workers[2]);
  run.add_member(joiner);
  run.recover();
  CHECK(run.members() == std::vector<WorkerId>{workers[0], workers[1]});
  CHECK_FALSE(run[workers[0]].active.contains(grown.generation));
  CHECK_FALSE(run.answer(joiner, run.committed().at(run.generation()).fence).in_loop);
  run.wait_step(workers[0], run[workers[0]].heartbeat.step + 5);
  run.change_to({workers[0], workers[1], joiner});  // it is a ready candidate again
  run.wait_step(joiner, run[joiner].active.rbegin()->second.first_step + 5);
  run.stop_and_check();
}

TEST_CASE("a donor dies while it sends, or a joiner while it receives") {
  for (const bool donor : {true, false}) {
    CAPTURE(donor);
    const TestWorkerOptions options{.parameters = 4'000'000, .step_time_us = 20'000};
    FakeRun run(options);
    auto workers = run.spawn_ready(2, options);
    run.change_to(workers, {1, 1});  // a gradient of this size takes long to compute
    run.wait_step(workers[0], 2);
    workers.push_back(run.spawn_ready(options));
    const auto grown = run.plan(workers, {1, 1, 1});
    run.prepare(grown);
    run.wait_prepared(grown);
    run.commit(grown);
    run.wait_until([&] { return run[workers[0]].active.contains(grown.generation); }, "the swap");
    run.set_members(workers);
    run.kill(donor ? workers[1] : workers[2]);
    run.recover();
    const Step resumed = run.committed().at(run.generation()).resume_step;
    for (const WorkerId worker : run.members()) run.wait_step(worker, resumed + 3);
    run.stop_and_check();
  }
}

TEST_CASE("a member dies in the first broadcast: the others start over as if it had never been there") {
  const TestWorkerOptions options{.may_start_late = true};
  FakeRun run(options);
  const auto workers = run.spawn_ready(3, options);
  const auto first = run.plan(workers);
  run.prepare(first);
  run.wait_prepared(first);
  run.kill(workers[0]);
  run.commit(first);
  run.wait_until([&] { return !run[workers[1]].halts.empty() && !run[workers[2]].halts.empty(); }, "the failure");
  CHECK_FALSE(run[workers[1]].halts.front().in_loop);
  run.set_members({workers[1], workers[2]});
  run.recover();
  CHECK(run.members().empty());
  run.change_to({workers[1], workers[2]});
  run.wait_step(workers[1], 10);
  run.stop_and_check();
}

TEST_CASE("a member dies after its last step: the others still end with success") {
  const TestWorkerOptions options{.sample_count = 240, .epochs = 1};
  FakeRun run(options);
  auto workers = run.spawn_ready(2, options);
  workers.push_back(run.spawn_ready(dying(options, {Moment::kOutside, 10})));
  run.change_to(workers);
  run.wait_exit(workers[2]);
  run.recover();
  for (const WorkerId worker : run.members()) {
    run.wait_exit(worker);
    CHECK(run[worker].exit_code == kExitFinished);
    CHECK(run[worker].finished->last_step == 10);
  }
  run.check_audit();
}

TEST_CASE("a recovery can stop the run, with a checkpoint of the last committed step by the one it names") {
  const TestWorkerOptions options;
  FakeRun run(options);
  const std::string checkpoints = run.directory() + "/checkpoints";
  run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", checkpoints);
  auto workers = run.spawn_ready(2, options);
  workers.push_back(run.spawn_ready(dying(options, {Moment::kBetweenBuckets, 5})));
  run.change_to(workers);
  run.wait_exit(workers[2]);
  auto stop = run.recovery_plan(run.abort());
  stop.members.clear();
  stop.donors = {workers[1], workers[0]};
  run.prepare_for(stop, {workers[0], workers[1]});
  run.commit_for(stop, {workers[0], workers[1]});
  for (const WorkerId worker : {workers[0], workers[1]}) {
    run.wait_exit(worker);
    CHECK(run[worker].exit_code == kExitStopped);
    CHECK(run[worker].left->last_step == 4);
    CHECK(run[worker].notified_for.contains(workers[2]));
  }
  CHECK(std::filesystem::exists(checkpoints + "/step-4.gen-1.safetensors"));
  run.check_audit();
}

TEST_CASE("the steps of a leaver are reported by the others, since it may end before its last messages are sent") {
  const TestWorkerOptions options{.sample_count = 1'000'000};
  FakeRun run(options);
  const auto workers = run.spawn_ready(3, options);
  run.change_to(workers);
  run.wait_step(workers[0], 5);
  run.change_to({workers[0], workers[1]});
  const Step first_without = run[workers[0]].active.rbegin()->second.first_step;
  run.wait_step(workers[0], first_without + 3);
  const auto& reported = run[workers[0]].notified_for[workers[2]];
  REQUIRE(reported.size() == first_without - 1);
  CHECK(reported.back().step == first_without - 1);
  CHECK(reported.back().count == 8);
  CHECK(run[workers[1]].notified_for.empty());
  run.stop();
  run.wait_all_exited();
  run.check_audit();
}

TEST_CASE("a joiner that outlives the workers behind its state reports that state's content, once") {
  const TestWorkerOptions options{.sample_count = 1'000'000};
  FakeRun run(options);
  const auto old = run.spawn_ready(2, options);
  run.change_to(old);
  run.wait_step(old[0], 5);
  const WorkerId joiner = run.spawn_ready();
  run.change_to({old[0], old[1], joiner});
  const Step joined = run[joiner].active.rbegin()->second.first_step;
  run.wait_step(joiner, joined + 3);
  CHECK(run[joiner].notified_of_state.empty());
  for (const WorkerId worker : old) {
    run.kill(worker);
    run.wait_exit(worker);
    run.recover();
    run.wait_step(joiner, run.committed().at(run.generation()).resume_step + 2);
  }
  REQUIRE(run[joiner].notified_of_state.size() == 1);
  const auto& held = run[joiner].notified_of_state.front();
  // A worker that was overtaken in the step of a loss receives the state once more.
  Step given = 0;
  for (const auto& [generation, active] : run[joiner].active) {
    if (active.state_transfer_bytes != 0) given = active.first_step - 1;
  }
  CHECK(held.step == given);
  CHECK(held.first_position == 0);
  if (given == joined - 1) CHECK(held.count == given * old.size() * 8);  // each has a share of 8
  run.stop();
  run.wait_exit(joiner);
  run.check_audit();
}

TEST_CASE("a halted worker saves its step and stops when no recovery is possible any more") {
  const TestWorkerOptions options;
  FakeRun run(options);
  const std::string checkpoints = run.directory() + "/checkpoints";
  run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", checkpoints);
  run.set_environment("ELASTICTRAIN_ORPHAN_GRACE_MS", "300");
  auto workers = run.spawn_ready(2, options);
  workers.push_back(run.spawn_ready(dying(options, {Moment::kComputing, 5})));
  run.change_to(workers);
  run.wait_exit(workers[2]);
  run.stop_listening();
  for (const WorkerId worker : {workers[0], workers[1]}) run.close_socket(worker);
  for (const WorkerId worker : {workers[0], workers[1]}) {
    run.wait_exit(worker);
    CHECK(run[worker].exit_code == kExitStopped);
  }
  CHECK(std::filesystem::exists(checkpoints + "/step-4.gen-1.safetensors"));
}

TEST_CASE("an agent reports the loss of its supervisor: all of its workers stop together, none alone") {
  const TestWorkerOptions options;
  FakeRun run(options);
  const auto workers = run.spawn_ready(2, options);
  run.change_to(workers);
  run.tell_orphaned(workers[0]);
  run.wait_step(workers[0], run[workers[0]].heartbeat.step + 20);
  run.tell_orphaned(workers[1]);
  run.wait_all_exited();
  for (const WorkerId worker : workers) CHECK(run[worker].exit_code == kExitStopped);
}

// Gradients that a program sums twice in a step, in one memory: of the host, or of a device if the workers use one.
class TwoPasses {
 public:
  enum class Type { kFloat32, kBFloat16 };

  TwoPasses(Type type, Step dies_in) : type_(type), dies_in_(dies_in) {}

  void make_room() {
    if (std::getenv("TEST_WORKER_DEVICE") != nullptr) device_.emplace(kCount, 0);
  }

  // The mean of the first pass is 1, to which every worker adds 2. A worker is lost before the second one in its step
  // `dies_in`, of which the others hear meanwhile.
  void run(Session& session, Step step) {
    sum(session, 1, 0x3f80);
    if (step == dies_in_) std::raise(SIGKILL);
    if (step == 5) wait_to_be_let_go();
    demand(sum(session, 3, 0x4040), "the second pass is not part of the mean");
  }

 private:
  static constexpr std::size_t kCount = 1000;

  // Whether the mean is the value that all have.
  bool sum(Session& session, float value, std::uint16_t half) {
    const bool narrow = type_ == Type::kBFloat16;
    std::vector<float> values(kCount, narrow ? std::bit_cast<float>(std::uint32_t{half} << 16 | half) : value);
    if (!device_) {
      memory_ = values;
      narrow ? session.all_reduce_async(memory_.data(), kCount, DataType::kBFloat16)
             : session.all_reduce_async(memory_.data(), kCount);
      session.wait_all_reduce();
      return memory_.front() == values.front();
    }
    device_->put_gradient(values);
    narrow ? session.all_reduce_device_async(device_->gradient(), kCount, DataType::kBFloat16, device_->stream())
           : session.all_reduce_device_async(device_->gradient(), kCount, device_->stream());
    session.wait_all_reduce();
    std::vector<float> found(kCount);
    device_->get_gradient(found);
    return found.front() == values.front();
  }

  const Type type_;
  const Step dies_in_;
  std::vector<float> memory_;
  std::optional<DeviceArrays> device_;
};

TestWorkerOptions with_two_passes(TwoPasses::Type type, Step dies_in = 0) {
  TestWorkerOptions options;
  const auto passes = std::make_shared<TwoPasses>(type, dies_in);
  options.before_start = [passes](Session&) { passes->make_room(); };
  options.in_step = [passes](Session& session, Step step) { passes->run(session, step); };
  return options;
}

TEST_CASE("a worker dies between two sums of the same memory: what the others have added to the first one stays") {
  for (const auto type : {TwoPasses::Type::kFloat32, TwoPasses::Type::kBFloat16}) {
    for (const std::size_t survivors : {2, 1}) {
      CAPTURE(type);
      CAPTURE(survivors);
      FakeRun run(with_two_passes(type));
      auto workers = run.spawn_ready(survivors);
      workers.push_back(run.spawn_ready(with_two_passes(type, 5)));
      run.change_to(workers);
      run.wait_exit(workers.back());
      workers.pop_back();
      const Generation fence = run.new_fence();
      run.send_abort(fence, workers);
      run.let_go();
      run.wait_halted(fence, workers);
      run.recover_with(run.recovery_plan(fence));
      train_on_and_check(run);
    }
  }
}

TEST_CASE("without kept gradients a loss costs the step's samples a second pass, nothing else") {
  const TestWorkerOptions options;
  FakeRun run(options);
  run.set_environment("ELASTICTRAIN_KEEP_GRADIENTS", "0");
  CHECK(lose_one(run, options, {Moment::kBetweenBuckets, 5}) == 4);
}

TEST_CASE("heartbeats say where the training thread is and for how long") {
  const TestWorkerOptions options;
  FakeRun run(options);
  const WorkerId slow = run.spawn_ready(waiting(options, {Moment::kComputing, 3}));
  const WorkerId other = run.spawn_ready(options);
  CHECK(run[other].heartbeat.place == protocol::StepPlace::kStarting);
  run.change_to({slow, other});
  const auto stands_at = [&](WorkerId worker, protocol::StepPlace place) {
    const auto& heartbeat = run[worker].heartbeat;
    return heartbeat.place == place && heartbeat.place_ms >= 50 && heartbeat.step == 2;
  };
  run.wait_until([&] { return stands_at(slow, protocol::StepPlace::kComputing); }, "the one that computes");
  run.wait_until([&] { return stands_at(other, protocol::StepPlace::kReducing); }, "the one that waits for it");
  run.let_go();
  run.wait_step(other, 10);
  run.stop_and_check();
}

}  // namespace
}  // namespace elastictrain::test

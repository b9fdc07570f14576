// When the session writes checkpoints and what a run begins with. The files are tested in tests/unit/checkpoint.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "fake_run.h"
#include "tests/unit/checkpoint/directory.h"

namespace elastictrain::test {
namespace {

namespace fs = std::filesystem;

using checkpoint::test::Directory;

TEST_CASE("a stopped run leaves a checkpoint and a new run continues from it") {
  Directory directory;
  Step stopped_at = 0;
  {
    FakeRun run;
    run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
    const auto worker = run.spawn_ready();
    run.change_to({worker});
    run.wait_step(worker, 5);
    run.stop();
    run.wait_all_exited();
    stopped_at = run[worker].left->last_step;
  }
  CHECK(directory.names().contains("step-" + std::to_string(stopped_at) + ".gen-1.safetensors"));
  FakeRun run;
  run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
  run.set_environment("ELASTICTRAIN_RESUME", "1");
  const std::vector<WorkerId> workers{run.spawn_ready(), run.spawn_ready()};
  run.change_to(workers);
  CHECK(run[workers[1]].active.at(1).first_step == stopped_at + 1);
  run.stop();
  run.wait_all_exited();
  REQUIRE_FALSE(run[workers[0]].notified_of_state.empty());
  CHECK(run[workers[0]].notified_of_state.front().step == stopped_at);
  CHECK(run[workers[1]].notified_of_state.empty());
  CHECK(run[workers[0]].audit.front().state_hash == run[workers[1]].audit.front().state_hash);
}

// Trains until `step` with `count` workers and stops; returns the last step.
Step train(FakeRun& run, const Directory& directory, std::size_t count, Step step) {
  run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
  std::vector<WorkerId> workers;
  for (std::size_t i = 0; i < count; ++i) workers.push_back(run.spawn_ready());
  run.change_to(workers);
  run.wait_step(workers[0], step);
  run.stop();
  run.wait_all_exited();
  return run[workers[0]].left->last_step;
}

std::string stem(Step step, Generation generation) {
  return "step-" + std::to_string(step) + ".gen-" + std::to_string(generation);
}

TEST_CASE("a worker that received a checkpoint's state reports its content if the one that read it is lost") {
  Directory directory;
  Step stopped_at = 0;
  {
    FakeRun run;
    stopped_at = train(run, directory, 1, 5);
  }
  FakeRun run;
  run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
  run.set_environment("ELASTICTRAIN_RESUME", "1");
  const std::vector<WorkerId> workers{run.spawn_ready(), run.spawn_ready()};
  run.change_to(workers);
  run.wait_step(workers[1], stopped_at + 3);
  CHECK(run[workers[1]].notified_of_state.empty());
  run.kill(workers[0]);
  run.wait_exit(workers[0]);
  run.recover();
  run.wait_step(workers[1], run.committed().at(run.generation()).resume_step + 2);
  REQUIRE_FALSE(run[workers[1]].notified_of_state.empty());
  CHECK(run[workers[1]].notified_of_state.front().step == stopped_at);
  run.stop();
  run.wait_exit(workers[1]);
}

TEST_CASE("checkpoints are written during training, and the configured number is kept") {
  Directory directory;
  FakeRun run;
  run.set_environment("ELASTICTRAIN_CHECKPOINT_EVERY", "3");
  run.set_environment("ELASTICTRAIN_CHECKPOINT_KEEP", "2");
  const auto last = train(run, directory, 2, 20);
  const auto names = directory.names();
  CHECK(names.size() == 4);
  CHECK(names.contains(stem(last, 1) + ".safetensors"));
  CHECK(names.contains(stem(last, 1) + ".json"));
}

TEST_CASE("a damaged newest checkpoint is skipped, with a note, and the one before it is taken") {
  Directory directory;
  Step first = 0;
  Step second = 0;
  {
    FakeRun run;
    first = train(run, directory, 1, 4);
  }
  {
    FakeRun run;
    run.set_environment("ELASTICTRAIN_RESUME", "1");
    second = train(run, directory, 1, first + 3);
  }
  REQUIRE(second > first);
  // The second run counts its generations beyond those of the first.
  const auto newest = fs::path(directory.path()) / (stem(second, 2) + ".safetensors");
  fs::resize_file(newest, fs::file_size(newest) - 1);
  FakeRun run;
  run.set_environment("ELASTICTRAIN_RESUME", "1");
  train(run, directory, 2, first + 3);
  CHECK(run[WorkerId{1}].active.at(1).first_step == first + 1);
  CHECK(run[WorkerId{1}].notes["checkpoint_skipped"].find(newest.filename()) != std::string::npos);
  // The next run loads what this one has written since.
  FakeRun again;
  again.set_environment("ELASTICTRAIN_RESUME", "1");
  train(again, directory, 1, first + 3);
  CHECK(again[WorkerId{1}].active.at(1).first_step > first + 3);
}

TEST_CASE("where no checkpoint can be used nothing starts from zero") {
  Directory directory;
  Step last = 0;
  {
    FakeRun run;
    last = train(run, directory, 1, 4);
  }
  fs::resize_file(fs::path(directory.path()) / (stem(last, 1) + ".json"), 10);
  FakeRun run;
  run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
  run.set_environment("ELASTICTRAIN_RESUME", "1");
  const auto worker = run.spawn_ready();
  const auto plan = run.plan({worker});
  run.prepare(plan);
  run.wait_prepared(plan);
  run.commit(plan);
  run.wait_exit(worker);
  CHECK(run[worker].exit_code != kExitFinished);
  CHECK(run[worker].active.empty());
}

TEST_CASE("a run that does not resume keeps earlier checkpoints, reports it, and its own are the newer ones") {
  Directory directory;
  Step old_step = 0;
  {
    FakeRun run;
    old_step = train(run, directory, 1, 30);
  }
  FakeRun run;
  const auto last = train(run, directory, 1, 2);
  CHECK(run[WorkerId{1}].notes.contains("checkpoint_unused"));
  CHECK(directory.names().contains(stem(old_step, 1) + ".json"));
  CHECK(directory.names().contains(stem(last, 2) + ".json"));
  FakeRun again;
  again.set_environment("ELASTICTRAIN_RESUME", "1");
  train(again, directory, 1, last + 1);
  CHECK(again[WorkerId{1}].active.at(1).first_step == last + 1);
}

TEST_CASE("a recovery fences out what members of older generations may still write") {
  Directory directory;
  FakeRun run;
  run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
  const std::vector<WorkerId> workers{run.spawn_ready(), run.spawn_ready(), run.spawn_ready()};
  run.change_to(workers);
  run.wait_step(workers[0], 4);
  run.kill(workers[0]);
  run.recover();
  const auto fence = "fence.gen-" + std::to_string(run.generation()) + ".json";
  run.wait_until([&] { return directory.names().contains(fence); }, "the fence");
  run.stop();
  run.wait_all_exited();
}

TEST_CASE("a checkpoint that cannot be written is noted and training continues") {
  FakeRun run;
  run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", "/proc/no-such-place");
  run.set_environment("ELASTICTRAIN_CHECKPOINT_EVERY", "2");
  const auto worker = run.spawn_ready();
  run.change_to({worker});
  run.wait_until([&] { return run[worker].notes.contains("checkpoint_failed"); }, "the note");
  CHECK(run[worker].notes["checkpoint_failed"].find("/proc/no-such-place") != std::string::npos);
  run.wait_step(worker, run[worker].heartbeat.step + 5);
  run.stop();
  run.wait_all_exited();
  CHECK(run[worker].exit_code == kExitStopped);
}

}  // namespace
}  // namespace elastictrain::test

#include "train/session/checkpoint.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "fake_run.h"

namespace elastictrain::test {
namespace {

namespace fs = std::filesystem;

class Directory {
 public:
  Directory() {
    char name[] = "/tmp/et-checkpoint-test-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~Directory() { fs::remove_all(path_); }
  const std::string& path() const { return path_; }
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) names.insert(entry.path().filename().string());
    return names;
  }

 private:
  std::string path_;
};

struct State {
  std::vector<float> weights = std::vector<float>(1000);
  std::vector<float> momentum = std::vector<float>(77);
  state::StateBuffers buffers;
  State() {
    buffers.add("weights", weights.data(), weights.size() * sizeof(float));
    buffers.add("momentum", momentum.data(), momentum.size() * sizeof(float));
  }
};

TEST_CASE("a checkpoint brings back every byte and the run's numbers") {
  Directory directory;
  State saved;
  std::iota(saved.weights.begin(), saved.weights.end(), 1.0F);
  std::iota(saved.momentum.begin(), saved.momentum.end(), 5.0F);
  const state::Progress progress{.committed_step = 40, .samples_used = 3, .sampler = {1, 2, 3}};
  REQUIRE(session::write_checkpoint(directory.path(), 2, progress, saved.buffers).ok());
  CHECK(directory.names() == std::set<std::string>{"step-40.gen-2.safetensors"});
  State loaded;
  const auto result = session::load_newest_checkpoint(directory.path(), loaded.buffers);
  REQUIRE(result.ok());
  CHECK(result->committed_step == 40);
  CHECK(result->sampler == progress.sampler);
  CHECK(loaded.weights == saved.weights);
  CHECK(loaded.momentum == saved.momentum);
}

TEST_CASE("the newest three checkpoints are kept and the newest is loaded") {
  Directory directory;
  State state;
  for (const Step step : {8, 9, 10, 11, 100}) {
    state.weights[0] = static_cast<float>(step);
    REQUIRE(session::write_checkpoint(directory.path(), 1, {.committed_step = step}, state.buffers).ok());
  }
  CHECK(directory.names() == std::set<std::string>{"step-10.gen-1.safetensors", "step-11.gen-1.safetensors",
                                                   "step-100.gen-1.safetensors"});
  state.weights[0] = 0;
  CHECK(session::load_newest_checkpoint(directory.path(), state.buffers)->committed_step == 100);
  CHECK(state.weights[0] == 100.0F);
}

TEST_CASE("a cut, foreign or unfitting checkpoint is refused by its name") {
  Directory directory;
  State state;
  REQUIRE(session::write_checkpoint(directory.path(), 1, {.committed_step = 5}, state.buffers).ok());
  const fs::path file = fs::path(directory.path()) / "step-5.gen-1.safetensors";
  float other = 0;
  state::StateBuffers unfitting;
  unfitting.add("weights", &other, sizeof other);
  const auto refused = session::load_newest_checkpoint(directory.path(), unfitting);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find(file.string()) != std::string::npos);
  fs::resize_file(file, fs::file_size(file) - 1);
  CHECK_FALSE(session::load_newest_checkpoint(directory.path(), state.buffers).ok());
  std::ofstream(file, std::ios::trunc) << "something else that is longer than a few bytes";
  CHECK_FALSE(session::load_newest_checkpoint(directory.path(), state.buffers).ok());
}

TEST_CASE("an empty directory is no error but nothing to load") {
  Directory directory;
  State state;
  CHECK(session::load_newest_checkpoint(directory.path(), state.buffers).error().code == ErrorCode::kUnavailable);
}

TEST_CASE("a stopped run leaves a checkpoint and a new run goes on from it") {
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
  CHECK(run[workers[0]].audit.front().state_hash == run[workers[1]].audit.front().state_hash);
}

TEST_CASE("a checkpoint that cannot be written is noted and training goes on") {
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

// State that each rank keeps for itself.
#include <doctest/doctest.h>

#include <cstddef>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "fake_run.h"
#include "tests/unit/checkpoint/directory.h"

namespace elastictrain::test {
namespace {

using checkpoint::test::Directory;

// Counts its own steps on top of what it began with, in 100s of its rank. Writes what it begins with to a file of its
// rank, and what it has at the end of the data.
TestWorkerOptions counting(const std::string& directory, std::uint64_t max_steps = 0) {
  TestWorkerOptions options;
  options.max_steps = max_steps;
  const auto count = std::make_shared<std::uint64_t>(7);
  const auto write = [=](Session& session, const std::string& name) {
    std::ofstream(directory + "/" + name + std::to_string(session.rank())) << *count;
  };
  options.before_start = [=](Session& session) { session.share_local_state("count", count.get(), sizeof *count); };
  options.after_start = [=](Session& session) { write(session, "begins"); };
  options.in_step = [=](Session& session, std::uint64_t step) { *count = 100 * session.rank() + step; };
  options.at_end = [=](Session& session) { write(session, "ends"); };
  return options;
}

std::string count_in(const std::string& path) {
  std::string text;
  std::ifstream(path) >> text;
  return text;
}

void save_to(FakeRun& run, const Directory& directory, bool resumes) {
  run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
  run.set_environment("ELASTICTRAIN_CHECKPOINT_EVERY", "1");
  if (resumes) run.set_environment("ELASTICTRAIN_RESUME", "1");
}

TEST_CASE("a run that resumes gives each rank the local state of that rank, and a joiner keeps its own") {
  Directory directory;
  Step last = 0;
  {
    FakeRun run(counting(directory.path()));
    save_to(run, directory, false);
    const auto workers = run.spawn_ready(3);
    run.change_to({workers[0], workers[1]});
    run.wait_step(workers[0], 3);
    run.change_to(workers);
    run.wait_step(workers[0], run[workers[0]].heartbeat.step + 3);
    CHECK(count_in(directory.path() + "/begins2") == "7");
    run.change_to({workers[0], workers[1]});
    run.wait_step(workers[0], run[workers[0]].heartbeat.step + 3);
    run.stop_and_check();
    last = run[workers[0]].left->last_step;
  }
  FakeRun run(counting(directory.path()));
  save_to(run, directory, true);
  const auto workers = run.spawn_ready(3);
  run.change_to(workers);
  run.wait_step(workers[0], last + 2);
  run.stop();
  run.wait_all_exited();
  const std::string begins = directory.path() + "/begins";
  CHECK(count_in(begins + "0") == std::to_string(last));
  CHECK(count_in(begins + "1") == std::to_string(100 + last));
  CHECK(count_in(begins + "2") == "7");
  CHECK(run[workers[2]].notes.contains("local_state"));
}

TEST_CASE("the checkpoint at the end of the data has the local state of that end") {
  Directory directory;
  {
    FakeRun run(counting(directory.path(), 4));
    run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
    run.change_to(run.spawn_ready(2));
    run.wait_all_exited();
  }
  FakeRun run(counting(directory.path(), 8));
  save_to(run, directory, true);
  run.change_to(run.spawn_ready(2));
  run.wait_all_exited();
  CHECK(count_in(directory.path() + "/begins1") == "104");
  CHECK(count_in(directory.path() + "/ends1") == "108");
}

TEST_CASE("workers whose local states differ in size announce different layouts, and name them") {
  FakeRun run;
  const auto with = [](std::size_t bytes) {
    TestWorkerOptions options;
    const auto memory = std::make_shared<std::vector<std::byte>>(bytes);
    options.before_start = [=](Session& session) { session.share_local_state("own", memory->data(), memory->size()); };
    return options;
  };
  const auto usual = run.spawn_ready(with(8));
  const auto other = run.spawn_ready(with(16));
  CHECK(run[usual].ready->state_layout_hash != run[other].ready->state_layout_hash);
  CHECK(run[usual].ready->state_items.ends_with("own of each rank, 8 bytes\n"));
}

TEST_CASE("local state has names of its own, and is described before the start") {
  Session session;
  float own = 1;
  session.share_local_state("own", &own, sizeof own);
  CHECK_THROWS_AS(session.share_local_state("own", &own, sizeof own), SessionError);
  CHECK_THROWS_AS(session.share_local_state("none", nullptr, 4), SessionError);
  REQUIRE(session.start());
  CHECK_THROWS_AS(session.share_local_state("late", &own, sizeof own), SessionError);
}

}  // namespace
}  // namespace elastictrain::test

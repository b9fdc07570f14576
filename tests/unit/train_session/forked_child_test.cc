// A child that is forked from a worker, such as a process of a data loader.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

#include "fake_run.h"
#include "tests/unit/train_session/every_call.h"

namespace elastictrain::test {
namespace {

int open_descriptors() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    if (std::stoi(entry.path().filename()) > 2) ++count;
  }
  return count - 1;  // the directory itself
}

bool can_be_created() {
  try {
    Session other;
  } catch (const SessionError&) {
    return false;
  }
  return true;
}

// They read or set a value of the child's own copy.
constexpr const char* kCallsOnValues =
    "attachment monitors peer_monitors measure_gradient_variance half_batch early last_step rank ";

enum ChildEnd { kDestroys, kExits, kOutlives };

void outlive_run() {
  const char* directory = std::getenv("TEST_WORKER_DIRECTORY");
  while (::access(directory, F_OK) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// The child's status is the number of the first check that failed.
int be_child(Session& session, ChildEnd end) {
  // Those of a vendor's library are not ours to close.
  const bool uses_device = std::getenv("TEST_WORKER_DEVICE") != nullptr;
  if (!uses_device && open_descriptors() != 0) return 1;
  if (calls_that_return(session) != kCallsOnValues) return 2;
  if (std::getenv("ELASTICTRAIN_SOCKET") != nullptr) return 3;
  if (can_be_created()) return 4;
  if (end == kDestroys) session.~Session();
  if (end == kOutlives) outlive_run();
  return 0;
}

void fork_child(Session& session, ChildEnd end) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int status = be_child(session, end);
    if (end == kExits) std::exit(status);
    ::_exit(status);
  }
  if (end == kOutlives) return;
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) throw std::runtime_error("the child ended with " + std::to_string(status));
}

TEST_CASE("a forked child may destroy its session or exit, in a step and between steps, and training goes on") {
  for (const ChildEnd end : {kDestroys, kExits}) {
    for (const bool in_step : {true, false}) {
      TestWorkerOptions options;
      const auto forks = [=](Session& session, std::uint64_t step) {
        if (step == 5 || step == 9) fork_child(session, end);
      };
      (in_step ? options.in_step : options.between_steps) = forks;
      FakeRun run(options);
      const auto workers = run.spawn_ready(3);
      run.change_to(workers);
      run.wait_step(workers[0], 20);
      run.change_to({workers[0], workers[1]});
      run.wait_step(workers[0], run[workers[0]].heartbeat.step + 5);
      run.stop_and_check();
    }
  }
}

// As clone() does, which a program may call by itself.
TEST_CASE("a child that was made past the handlers of fork() is refused as well") {
  TestWorkerOptions options;
  options.in_step = [](Session& session, std::uint64_t step) {
    if (step != 5) return;
    const pid_t child = ::_Fork();
    if (child == 0) ::_exit(calls_that_return(session) == kCallsOnValues ? 0 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status != 0) throw std::runtime_error("the child could use the session");
  };
  FakeRun run(options);
  const auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_step(workers[0], 20);
  run.stop_and_check();
}

// Its peers see the end of its connections although the child lives on.
TEST_CASE("a child that outlives a lost worker does not keep the others waiting") {
  TestWorkerOptions options;
  options.in_step = [](Session& session, std::uint64_t step) {
    if (step == 5) fork_child(session, kOutlives);
  };
  FakeRun run;
  const std::vector<WorkerId> workers{run.spawn_ready(), run.spawn_ready(),
                                      run.spawn_ready(dying(options, {Moment::kUpdating, 8}))};
  run.change_to(workers);
  run.wait_exit(workers[2]);
  run.wait_until([&] { return !run[workers[0]].halts.empty() && !run[workers[1]].halts.empty(); },
                 "the others to notice it by themselves");
  run.recover();
  run.wait_step(workers[0], 20);
  run.stop_and_check();
}

}  // namespace
}  // namespace elastictrain::test

// State in memory that only the program can copy, and devices that only it knows.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fake_run.h"
#include "tests/unit/checkpoint/directory.h"
#include "train/session/access_port.h"

namespace elastictrain::test {
namespace {

// Memory that the session must not touch: what it holds is inverted.
struct Elsewhere {
  std::vector<std::byte> bytes = std::vector<std::byte>(3 << 20, ~std::byte{0});
  int reads = 0;

  MemoryAccess access() {
    return {.read = [this](std::uint64_t offset, std::span<std::byte> into) -> std::string {
              ++reads;
              if (offset + into.size() > bytes.size()) return "outside of the tensor";
              for (std::size_t i = 0; i < into.size(); ++i) into[i] = ~bytes[offset + i];
              return {};
            },
            .write = [this](std::uint64_t offset, std::span<const std::byte> from) -> std::string {
              if (offset + from.size() > bytes.size()) return "outside of the tensor";
              for (std::size_t i = 0; i < from.size(); ++i) bytes[offset + i] = ~from[i];
              return {};
            }};
  }
  // All of its values count steps.
  std::uint64_t value(std::size_t place) const {
    std::uint64_t found = 0;
    for (int i = 7; i >= 0; --i) found = found << 8U | std::to_integer<std::uint64_t>(~bytes[8 * place + i]);
    return found;
  }
  void set(std::uint64_t value) {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = ~std::byte(value >> 8 * (i % 8));
  }
};

constexpr std::array<std::uint64_t, 1> kPlaces{(3 << 20) / 8};

TestWorkerOptions counts_elsewhere() {
  TestWorkerOptions options;
  const auto memory = std::make_shared<Elsewhere>();
  options.before_start = [memory](Session& session) {
    session.share_tensor_through(memory->access(), "counter", "U64", kPlaces);
  };
  options.in_step = [memory](Session& session, std::uint64_t) {
    float nothing = 0;
    session.all_reduce(&nothing, 1);
    memory->set(memory->value(0) + 1);
  };
  options.between_steps = [memory](Session& session, std::uint64_t) {
    if (session.outcome() != Outcome::kRunning) return;
    for (const std::size_t place : {std::size_t{0}, kPlaces[0] / 2, kPlaces[0] - 1}) {
      if (memory->value(place) != session.committed_step()) throw std::runtime_error("another state than the run's");
    }
  };
  return options;
}

TEST_CASE("state that only the program can copy reaches joiners and the audit, and a run resumes with it") {
  checkpoint::test::Directory directory;
  Step last = 0;
  for (const bool resumes : {false, true}) {
    FakeRun run(counts_elsewhere());
    run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
    run.set_environment("ELASTICTRAIN_CHECKPOINT_EVERY", "5");
    if (resumes) run.set_environment("ELASTICTRAIN_RESUME", "1");
    auto workers = run.spawn_ready(2);
    run.change_to(workers);
    run.wait_step(workers[0], last + 7);
    workers.push_back(run.spawn_ready());
    run.change_to(workers);
    run.wait_step(workers[0], run[workers[0]].heartbeat.step + 5);
    run.change_to({workers[1], workers[2]});
    run.wait_step(workers[2], run[workers[2]].heartbeat.step + 5);
    run.stop();
    run.wait_all_exited();
    last = run[workers[2]].left->last_step;
  }
}

TEST_CASE("state that only the program can copy is described before the start, by both functions") {
  Session session;
  Elsewhere memory;
  session.share_tensor_through(memory.access(), "weight", "U64", kPlaces);
  CHECK_THROWS_AS(session.share_tensor_through(memory.access(), "weight", "U64", kPlaces), SessionError);
  CHECK_THROWS_AS(session.share_tensor_through(memory.access(), "other", "uint64", kPlaces), SessionError);
  CHECK_THROWS_AS(session.share_tensor_through({.read = memory.access().read, .write = {}}, "third", "U64", kPlaces),
                  SessionError);
  float host = 0;
  CHECK_THROWS_AS(session.move_state("weight", &host), SessionError);
  REQUIRE(session.start());
  CHECK_THROWS_AS(session.share_tensor_through(memory.access(), "late", "U64", kPlaces), SessionError);
}

TEST_CASE("a checkpoint whose state cannot be copied to where it belongs ends the run, which does not begin anew") {
  checkpoint::test::Directory directory;
  for (const bool resumes : {false, true}) {
    TestWorkerOptions options;
    options.before_start = [resumes](Session& session) {
      session.share_tensor_through(
          {.read = [](auto, auto) { return std::string(); },
           .write = [resumes](auto, auto) { return std::string(resumes ? "the device is gone" : ""); }},
          "weight", "U64", kPlaces);
    };
    FakeRun run(options);
    run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
    run.set_environment("ELASTICTRAIN_CHECKPOINT_EVERY", "5");
    if (resumes) run.set_environment("ELASTICTRAIN_RESUME", "1");
    const auto worker = run.spawn_ready();
    if (resumes) {
      const auto plan = run.plan({worker});
      run.prepare(plan);
      run.wait_prepared(plan);
      run.commit(plan);
      run.wait_exit(worker);
      CHECK(run[worker].exit_code != kExitFinished);
      CHECK(run[worker].active.empty());
    } else {
      run.change_to({worker});
      run.wait_step(worker, 10);
      run.stop();
      run.wait_all_exited();
    }
  }
  session::AccessPort port({.read = [](auto, auto) { return "the device is gone"; }, .write = {}});
  CHECK(port.read(port.begin(), {}).error().code == ErrorCode::kIo);
}

TEST_CASE("what a program says of its devices' memory is in the heartbeat") {
  TestWorkerOptions options;
  options.in_step = [](Session& session, std::uint64_t step) { session.device_memory(1000, step < 5 ? 900 : 400); };
  FakeRun run(options);
  const auto worker = run.spawn_ready();
  run.change_to({worker});
  run.wait_step(worker, 20);
  CHECK(run[worker].heartbeat.device.total_bytes == 1000);
  CHECK(run[worker].heartbeat.device.free_bytes == 400);
  run.stop_and_check();
}

TEST_CASE("a checkpoint of state that cannot be copied is missed, with the program's sentence") {
  checkpoint::test::Directory directory;
  TestWorkerOptions options;
  options.before_start = [](Session& session) {
    const auto training = std::this_thread::get_id();  // which reads for the audit
    const auto read = [training](auto, auto) {
      return std::string(std::this_thread::get_id() == training ? "" : "the device is gone");
    };
    session.share_tensor_through({.read = read, .write = [](auto, auto) { return std::string(); }}, "weight", "U64",
                                 kPlaces);
  };
  FakeRun run(options);
  run.set_environment("ELASTICTRAIN_CHECKPOINT_DIR", directory.path());
  run.set_environment("ELASTICTRAIN_CHECKPOINT_EVERY", "5");
  const auto worker = run.spawn_ready();
  run.change_to({worker});
  run.wait_step(worker, 20);
  run.stop();
  run.wait_all_exited();
  CHECK(run[worker].notes.at("checkpoint_failed").find("the device is gone") != std::string::npos);
}

}  // namespace
}  // namespace elastictrain::test

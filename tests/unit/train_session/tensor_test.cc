// State with types and shapes, much of it, and where it moves.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "elastictrain/session.hpp"
#include "fake_run.h"
#include "tests/unit/checkpoint/directory.h"
#include "train/state/state_buffers.h"

namespace elastictrain::test {
namespace {

TEST_CASE("a tensor has a dtype of the format, and its shape is part of the layout") {
  Session session;
  float data[6] = {};
  const std::array<std::uint64_t, 2> shape{2, 3};
  session.share_tensor("weight", data, "F32", shape);
  CHECK_THROWS_AS(session.share_tensor("weight", data, "F32", shape), SessionError);
  CHECK_THROWS_AS(session.share_tensor("other", data, "float32", shape), SessionError);
  const auto hash = [&](std::string dtype, std::vector<std::uint64_t> lengths) {
    state::StateBuffers buffers;
    buffers.add("weight", data, sizeof data, nullptr, state::TensorType{std::move(dtype), std::move(lengths)});
    return buffers.layout_hash();
  };
  CHECK(hash("F32", {2, 3}) == hash("F32", {2, 3}));
  CHECK(hash("F32", {2, 3}) != hash("F32", {3, 2}));
  CHECK(hash("F32", {2, 3}) != hash("I32", {2, 3}));
}

TEST_CASE("pieces are found among many buffers, empty ones too") {
  std::vector<char> bytes(3000);
  state::StateBuffers buffers;
  for (int i = 0; i < 1000; ++i) {
    buffers.add("b" + std::to_string(i), bytes.data() + 3 * i, i % 2 == 0 ? 3 : 0);
  }
  CHECK(buffers.total_bytes() == 1500);
  for (std::uint64_t offset = 0; offset < 1500; ++offset) {
    const auto piece = buffers.piece(offset, 100);
    CHECK(static_cast<void*>(piece.data) == bytes.data() + 6 * (offset / 3) + offset % 3);
    CHECK(piece.bytes == 3 - offset % 3);
  }
  CHECK(buffers.piece(1500, 100).bytes == 0);
}

// One that compares each name with all others takes a second or more.
TEST_CASE("20,000 buffers are registered, and each is found again, within the patience of a test") {
  std::vector<float> values(20'000);
  Session session;
  for (std::size_t i = 0; i < values.size(); ++i) {
    session.share_state("optimizer.state." + std::to_string(i), &values[i], sizeof(float));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    session.move_state("optimizer.state." + std::to_string(i), &values[values.size() - 1 - i]);
  }
  CHECK_THROWS_AS(session.move_state("other", values.data()), SessionError);
}

// Its content alternates between two places, of which only one is the state.
TEST_CASE("state that moves in a step reaches a joiner and the audit from where it is") {
  TestWorkerOptions options;
  struct Counter {
    std::uint64_t places[2] = {0, 0};
    int at = 0;
  };
  const auto counter = std::make_shared<Counter>();
  options.before_start = [counter](Session& session) {
    session.share_state("counter", &counter->places[0], sizeof(std::uint64_t));
  };
  options.in_step = [counter](Session& session, std::uint64_t) {
    float nothing = 0;
    bool refused = false;
    try {
      session.move_state("counter", &counter->places[1 - counter->at]);
    } catch (const SessionError&) {
      refused = true;
    }
    if (!refused) throw std::runtime_error("moved before the last all-reduce");
    session.all_reduce(&nothing, 1);
    const auto value = counter->places[counter->at] + 1;
    counter->places[counter->at] = 1'000'000 + session.worker_id();
    counter->at = 1 - counter->at;
    counter->places[counter->at] = value;
    session.move_state("counter", &counter->places[counter->at]);
  };
  options.between_steps = [counter](Session& session, std::uint64_t) {
    if (session.outcome() != Outcome::kRunning) return;
    if (counter->places[counter->at] != session.committed_step())
      throw std::runtime_error("another state than the run's");
  };
  FakeRun run(options);
  auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_step(workers[0], 10);
  workers.push_back(run.spawn_ready());
  run.change_to(workers);
  run.wait_step(workers[0], run[workers[0]].heartbeat.step + 20);
  run.stop_and_check();
}

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

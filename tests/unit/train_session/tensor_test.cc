// State with types and shapes, much of it, and where it moves.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "elastictrain/session.hpp"
#include "fake_run.h"
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

}  // namespace
}  // namespace elastictrain::test

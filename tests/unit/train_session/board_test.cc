// The board, seen from a worker.
#include <doctest/doctest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fake_run.h"
#include "supervisor/protocol/limits.h"
#include "train/session/board.h"

namespace elastictrain::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void put(Session& session, const std::string& key, const std::string& value) {
  session.board_put(key, value.data(), value.size());
}

std::string text_of(const std::optional<std::vector<std::byte>>& value) {
  return value ? std::string(reinterpret_cast<const char*>(value->data()), value->size()) : "none";
}

// What a worker sends, and a supervisor that answers when the test says so.
struct Wire {
  std::vector<protocol::BoardPut> puts;
  std::vector<protocol::BoardGet> gets;
  session::Board board{[this](const protocol::WorkerToAgent& message) {
    if (const auto* put = std::get_if<protocol::BoardPut>(&message)) puts.push_back(*put);
    if (const auto* get = std::get_if<protocol::BoardGet>(&message)) gets.push_back(*get);
  }};
};

TEST_CASE("a value that is put while another one of its key is on its way follows it, and only the newest does") {
  Wire wire;
  wire.board.put("a", "one");
  wire.board.put("a", "two");
  wire.board.put("a", "three");
  wire.board.put("b", "other");
  REQUIRE(wire.puts.size() == 2);
  CHECK(wire.puts[0].value == "one");
  CHECK(wire.puts[1].value == "other");
  wire.board.hear({.number = wire.puts[0].number});
  REQUIRE(wire.puts.size() == 3);
  CHECK(wire.puts[2].value == "three");
  wire.board.hear({.number = wire.puts[2].number});
  wire.board.hear({.number = wire.puts[1].number});
  wire.board.tend(session::Board::Clock::now() + seconds(100));
  CHECK(wire.puts.size() == 3);
}

TEST_CASE("what is not answered is sent again, less and less often, and what waits is sent at the end") {
  Wire wire;
  wire.board.put("a", "one");
  const auto begin = session::Board::Clock::now();
  wire.board.tend(begin + milliseconds(1));
  CHECK(wire.puts.size() == 1);
  wire.board.tend(begin + seconds(3));
  CHECK(wire.puts.size() == 2);
  CHECK(wire.puts[1].number == wire.puts[0].number);
  wire.board.put("a", "two");
  CHECK(wire.puts.size() == 2);
  wire.board.close();
  REQUIRE(wire.puts.size() == 3);
  CHECK(wire.puts[2].value == "two");
  CHECK_THROWS_AS(wire.board.put("a", "three"), SessionError);
}

TEST_CASE("a worker sees its own value before the supervisor does, and a refusal with its next call") {
  Wire wire;
  wire.board.put("a", "one");
  CHECK(wire.board.get("a", milliseconds(0)) == "one");
  CHECK(wire.gets.empty());
  wire.board.hear({.number = wire.puts[0].number, .problem = "the board is full"});
  CHECK_THROWS_WITH_AS(wire.board.put("b", "x"), "board_put(): the board is full", SessionError);
  wire.board.put("b", "x");
}

TEST_CASE("a question ends with its answer") {
  Wire wire;
  std::optional<std::string> value = "nothing yet";
  std::thread asks([&] { value = wire.board.get("a", seconds(20)); });
  for (std::uint64_t number = 1; number < 100 && value == "nothing yet"; ++number) {
    wire.board.hear({.number = number, .found = true, .value = "one"});
    std::this_thread::sleep_for(milliseconds(1));
    if (number == 99) number = 0;
  }
  asks.join();
  CHECK(value == "one");
  CHECK_FALSE(wire.gets.empty());
  CHECK(wire.gets[0].wait_ms <= 2000);
}

TEST_CASE("what is too large is refused at once") {
  Session session;
  const std::string large(limits::kMaxBoardValueBytes, 'v');
  CHECK_THROWS_AS(put(session, "a", large + "v"), SessionError);
  CHECK_THROWS_AS(put(session, "", "v"), SessionError);
  CHECK_THROWS_AS(put(session, std::string(limits::kMaxBoardKeyBytes + 1, 'k'), "v"), SessionError);
  CHECK_THROWS_AS((void)session.board_get("", milliseconds(0)), SessionError);
  for (int i = 0; i < 15; ++i) put(session, "a" + std::to_string(i), large);
  CHECK_THROWS_AS(put(session, "a15", large), SessionError);
  put(session, "a0", "small");
  put(session, "a15", large);
  CHECK(text_of(session.board_get("a0")) == "small");
  CHECK(text_of(session.board_get("a15")) == large);
  CHECK_FALSE(session.board_get("none", seconds(5)));
}

TEST_CASE("workers leave values for one another before they start, while they train and before they join") {
  TestWorkerOptions options;
  options.before_start = [](Session& session) {
    const auto id = session.worker_id();
    put(session, "from " + std::to_string(id), "worker " + std::to_string(id));
    const auto other = session.board_get("from " + std::to_string(id == 1 ? 2 : 1), seconds(20));
    demand(text_of(other) == (id == 1 ? "worker 2" : "worker 1"), "the value of the other worker before start()");
    if (id == 3) demand(session.board_get("step", seconds(20)).has_value(), "the value of a member for a joiner");
  };
  options.in_step = [](Session& session, std::uint64_t step) {
    if (session.rank() == 0) put(session, "step", std::to_string(step));
  };
  options.between_steps = [](Session& session, std::uint64_t step) {
    if (session.rank() == 1 && step % 8 == 0) demand(session.board_get("step").has_value(), "the value of a step");
  };
  FakeRun run(options);
  const auto first = run.spawn();
  const auto second = run.spawn();
  run.wait_until([&] { return run[first].ready && run[second].ready; }, "two workers");
  std::vector<WorkerId> workers{first, second};
  run.change_to(workers);
  run.wait_step(workers[0], 20);
  workers.push_back(run.spawn_ready());
  run.change_to(workers);
  run.wait_step(workers[2], run[workers[0]].heartbeat.step + 5);
  run.stop_and_check();
}

TEST_CASE("a board that does not answer holds up no worker that trains, and keeps its values until it does") {
  TestWorkerOptions options;
  options.in_step = [](Session& session, std::uint64_t step) { put(session, "step", std::to_string(step)); };
  FakeRun run(options);
  const auto worker = run.spawn_ready();
  run.change_to({worker});
  run.wait_step(worker, 5);
  run.answer_board(false);
  const Step then = run[worker].heartbeat.step;
  run.wait_step(worker, then + 20);
  run.answer_board(true);
  run.wait_until([&] { return std::stoull(run.board().at("step")) > then + 20; }, "a later value");
  run.stop_and_check();
}

}  // namespace
}  // namespace elastictrain::test

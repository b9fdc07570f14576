#include "launcher/agent/worker_record.h"

#include <doctest/doctest.h>

namespace launcher = elastictrain::launcher;
using namespace elastictrain::protocol;
using elastictrain::WorkerId;
using launcher::WorkerRecord;
using std::chrono::milliseconds;

namespace {

constexpr WorkerId kWorker{7};
const WorkerRecord::TimePoint kStart{};

WorkerHeartbeat beat(std::uint64_t sequence, std::uint32_t steps, double step_us) {
  WorkerHeartbeat heartbeat;
  heartbeat.sequence = sequence;
  heartbeat.step = sequence;
  heartbeat.steps = steps;
  heartbeat.step_us = step_us;
  return heartbeat;
}

}  // namespace

TEST_CASE("heartbeats fold with their timings weighted by steps") {
  const auto folded = launcher::fold(beat(1, 3, 100), beat(2, 1, 200));
  CHECK(folded.sequence == 2);
  CHECK(folded.steps == 4);
  CHECK(folded.step_us == doctest::Approx(125));
}

TEST_CASE("a heartbeat without steps keeps the timings of the one before") {
  const auto folded = launcher::fold(beat(1, 3, 100), beat(2, 0, 0));
  CHECK(folded.sequence == 2);
  CHECK(folded.steps == 3);
  CHECK(folded.step_us == doctest::Approx(100));
}

TEST_CASE("only heartbeats wait for the report, and only new ones are in it") {
  WorkerRecord record;
  CHECK(record.take(WorkerHello{1, kWorker, 1, "v"}, kStart));
  CHECK_FALSE(record.take(beat(1, 2, 10), kStart));
  CHECK_FALSE(record.take(beat(2, 2, 30), kStart));
  const auto pulse = record.pulse(kWorker, kStart, milliseconds(500));
  REQUIRE(pulse.has_value());
  CHECK(pulse->worker == kWorker);
  CHECK(pulse->heartbeat.sequence == 2);
  CHECK(pulse->heartbeat.step_us == doctest::Approx(20));
  CHECK_FALSE(record.pulse(kWorker, kStart + milliseconds(250), milliseconds(500)).has_value());
}

TEST_CASE("a worker that should speak and does not is reported with its silence") {
  WorkerRecord record;
  CHECK_FALSE(record.pulse(kWorker, kStart + milliseconds(9000), milliseconds(500)).has_value());
  record.take(WorkerHello{1, kWorker, 1, "v"}, kStart);
  const auto pulse = record.pulse(kWorker, kStart + milliseconds(700), milliseconds(500));
  REQUIRE(pulse.has_value());
  CHECK(pulse->quiet_ms == 700);
  CHECK(pulse->heartbeat.steps == 0);
}

TEST_CASE("a worker that has left or finished need not speak any more") {
  WorkerRecord record;
  record.take(WorkerHello{1, kWorker, 1, "v"}, kStart);
  record.take(WorkerLeft{2, 10}, kStart);
  CHECK_FALSE(record.pulse(kWorker, kStart + milliseconds(9000), milliseconds(500)).has_value());
}

TEST_CASE("the truth is the latest of each kind in the order of a worker's life") {
  WorkerRecord record;
  record.take(WorkerHello{1, kWorker, 1, "v"}, kStart);
  record.take(WorkerReady{}, kStart);
  record.take(WorkerPrepared{1}, kStart);
  record.take(WorkerActive{1, 1}, kStart);
  record.take(WorkerPrepared{2}, kStart);
  record.take(WorkerActive{2, 9}, kStart);
  record.keep_for_later(WorkerNote{"accuracy", "0.9"});
  record.keep_for_later(WorkerReady{});
  record.keep_for_later(WorkerSwap{2, 500, 400});
  record.take(WorkerFinished{20}, kStart);
  const auto truth = record.truth();
  REQUIRE(truth.size() == 7);
  CHECK(std::holds_alternative<WorkerHello>(truth[0]));
  CHECK(std::holds_alternative<WorkerReady>(truth[1]));
  CHECK(std::get<WorkerPrepared>(truth[2]).generation == 2);
  CHECK(std::get<WorkerActive>(truth[3]).first_step == 9);
  CHECK(std::get<WorkerNote>(truth[4]).key == "accuracy");
  CHECK(std::get<WorkerSwap>(truth[5]).generation == 2);
  CHECK(std::get<WorkerFinished>(truth[6]).last_step == 20);
}

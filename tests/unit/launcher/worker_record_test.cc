#include "launcher/agent/worker_record.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "supervisor/protocol/names.h"
#include "tests/support/in_a_process.h"

namespace launcher = elastictrain::launcher;
using namespace elastictrain::protocol;
using elastictrain::Generation;
using elastictrain::WorkerId;
using launcher::WorkerRecord;
using std::chrono::milliseconds;

namespace {

constexpr WorkerId kWorker{7};
const WorkerRecord::TimePoint kStart{};
const milliseconds kQuiet{500};

WorkerHeartbeat beat(std::uint64_t sequence, std::uint32_t steps, double step_us) {
  WorkerHeartbeat heartbeat;
  heartbeat.sequence = sequence;
  heartbeat.step = sequence;
  heartbeat.steps = steps;
  heartbeat.mean.step_us = step_us;
  return heartbeat;
}

WorkerHalted halted(Generation fence, Generation generation) {
  WorkerHalted message;
  message.fence = fence;
  message.generation = generation;
  return message;
}

WorkerAudit audit(std::uint64_t batch, std::size_t steps = 1) {
  return {std::vector<AuditStep>(steps), batch};
}

std::vector<std::uint64_t> batches(const std::vector<WorkerUp>& messages) {
  std::vector<std::uint64_t> numbers;
  for (const auto& message : messages) {
    if (const auto* one = std::get_if<WorkerAudit>(&message)) numbers.push_back(one->batch);
  }
  return numbers;
}

}  // namespace

TEST_CASE("a TERM is told to every later supervisor, also after one has acknowledged it, until the worker has left") {
  const auto terms = [](const std::vector<WorkerUp>& messages) {
    return std::count_if(messages.begin(), messages.end(), [](const WorkerUp& message) {
      const auto* note = std::get_if<WorkerNote>(&message);
      return note != nullptr && note->key == kTermNote;
    });
  };
  WorkerRecord record;
  CHECK(record.take(WorkerNote{std::string(kTermNote), "from process 5"}, kStart, 1).has_value());
  CHECK(terms(record.resync(2)) == 1);
  record.acknowledged(2);
  CHECK(terms(record.resync(3)) == 1);
  CHECK(terms(record.resync(4)) == 1);
}

TEST_CASE("heartbeats fold with their timings weighted by steps") {
  const auto folded = launcher::fold(beat(1, 3, 100), beat(2, 1, 200));
  CHECK(folded.sequence == 2);
  CHECK(folded.steps == 4);
  CHECK(folded.mean.step_us == doctest::Approx(125));
}

TEST_CASE("their norms fold by the steps in which they were measured") {
  auto older = beat(1, 16, 100);
  older.norm_steps = 1;
  older.local_square = older.local_inverse_batch = 4;
  older.global_square = older.global_inverse_batch = 2;
  auto newer = older;
  newer.norm_steps = 3;
  newer.local_square = newer.local_inverse_batch = 8;
  newer.global_square = newer.global_inverse_batch = 6;
  const auto folded = launcher::fold(older, newer);
  CHECK(folded.norm_steps == 4);
  CHECK(folded.local_square == doctest::Approx(7));
  CHECK(folded.global_square == doctest::Approx(5));
  CHECK(folded.local_inverse_batch == doctest::Approx(7));
  CHECK(folded.global_inverse_batch == doctest::Approx(5));
}

TEST_CASE("a heartbeat without steps keeps the timings of the one before, and tells where the worker is now") {
  auto later = beat(2, 0, 0);
  later.place = StepPlace::kReducing;
  later.place_ms = 700;
  const auto folded = launcher::fold(beat(1, 3, 100), later);
  CHECK(folded.sequence == 2);
  CHECK(folded.steps == 3);
  CHECK(folded.mean.step_us == doctest::Approx(100));
  CHECK(folded.place == StepPlace::kReducing);
  CHECK(folded.place_ms == 700);
}

TEST_CASE("heartbeats wait for the report, and only new ones are in it") {
  WorkerRecord record;
  CHECK(record.take(WorkerHello{1, kWorker, 1, "v"}, kStart, 1).has_value());
  CHECK_FALSE(record.take(beat(1, 2, 10), kStart, 1).has_value());
  CHECK_FALSE(record.take(beat(2, 2, 30), kStart, 1).has_value());
  const auto sample = record.sample(kWorker, kStart, kQuiet, {});
  REQUIRE(sample.has_value());
  CHECK(sample->worker == kWorker);
  CHECK(sample->heartbeat.sequence == 2);
  CHECK(sample->heartbeat.mean.step_us == doctest::Approx(20));
  CHECK_FALSE(record.sample(kWorker, kStart + milliseconds(250), kQuiet, {}).has_value());
}

TEST_CASE("a worker that should speak and does not is reported with its silence") {
  WorkerRecord record;
  CHECK_FALSE(record.sample(kWorker, kStart + milliseconds(9000), kQuiet, {}).has_value());
  record.take(WorkerHello{1, kWorker, 1, "v"}, kStart, 1);
  const auto sample = record.sample(kWorker, kStart + milliseconds(700), kQuiet, {.cpu_ms = 42});
  REQUIRE(sample.has_value());
  CHECK(sample->quiet_ms == 700);
  CHECK(sample->heartbeat.steps == 0);
  CHECK(sample->cpu_ms == 42);
}

TEST_CASE("a process that is stopped or continued is reported at once") {
  WorkerRecord record;
  record.take(WorkerHello{1, kWorker, 1, "v"}, kStart, 1);
  const auto stopped = record.sample(kWorker, kStart, kQuiet, {.cpu_ms = 5, .stopped = true});
  REQUIRE(stopped.has_value());
  CHECK(stopped->stopped);
  CHECK_FALSE(record.sample(kWorker, kStart, kQuiet, {.cpu_ms = 5, .stopped = true}).has_value());
  const auto resumed = record.sample(kWorker, kStart, kQuiet, {.cpu_ms = 6});
  REQUIRE(resumed.has_value());
  CHECK_FALSE(resumed->stopped);
}

TEST_CASE("a worker that has left or finished need not speak any more") {
  WorkerRecord record;
  record.take(WorkerHello{1, kWorker, 1, "v"}, kStart, 1);
  record.take(WorkerLeft{2, 10}, kStart, 1);
  CHECK_FALSE(record.sample(kWorker, kStart + milliseconds(9000), kQuiet, {}).has_value());
}

TEST_CASE("a resync contains the latest report of each kind, the assignment before the readiness to join") {
  WorkerRecord record;
  record.take(WorkerHello{1, kWorker, 1, "v"}, kStart, 1);
  record.take(WorkerReady{}, kStart, 1);
  record.take(WorkerPrepared{1}, kStart, 1);
  record.take(WorkerActive{1, 1}, kStart, 1);
  record.take(WorkerPrepared{2}, kStart, 1);
  record.take(WorkerNote{"accuracy", "0.9"}, kStart, 1);
  record.take(WorkerActive{2, 9}, kStart, 1);
  record.take(WorkerSwap{2, 500, 400}, kStart, 1);
  record.take(halted(0, 2), kStart, 1);
  record.take(halted(4, 2), kStart, 1);
  record.take(WorkerFinished{20}, kStart, 1);
  const auto resync = record.resync(2);
  REQUIRE(resync.size() == 8);
  CHECK(std::holds_alternative<WorkerHello>(resync[0]));
  CHECK(std::get<WorkerActive>(resync[1]).first_step == 9);
  CHECK(std::holds_alternative<WorkerReady>(resync[2]));
  CHECK(std::get<WorkerPrepared>(resync[3]).generation == 2);
  CHECK(std::get<WorkerHalted>(resync[4]).fence == 4);
  CHECK(std::get<WorkerNote>(resync[5]).key == "accuracy");
  CHECK(std::get<WorkerSwap>(resync[6]).generation == 2);
  CHECK(std::get<WorkerFinished>(resync[7]).last_step == 20);
}

TEST_CASE("a worker that has its assignment again is not reported as halted, one that halts anew is") {
  WorkerRecord record;
  record.take(halted(4, 2), kStart, 1);
  record.take(WorkerActive{5, 30}, kStart, 1);
  CHECK(record.resync(2).size() == 1);
  record.take(halted(0, 5), kStart, 2);
  const auto resync = record.resync(2);
  REQUIRE(resync.size() == 2);
  CHECK(std::get<WorkerHalted>(resync[1]).generation == 5);
}

TEST_CASE("audit batches and notes come again until a report that was sent after them is acknowledged") {
  WorkerRecord record;
  record.take(audit(1), kStart, 10);
  record.take(audit(2), kStart, 11);
  record.take(WorkerNote{"accuracy", "0.9"}, kStart, 12);
  record.acknowledged(9);
  CHECK(record.resync(12).size() == 3);
  // All three went up again before report 20, over a new connection; an old number acknowledges none of them.
  CHECK(batches(record.resync(20)) == std::vector<std::uint64_t>{1, 2});
  record.acknowledged(12);
  CHECK(batches(record.resync(20)) == std::vector<std::uint64_t>{1, 2});
  record.acknowledged(20);
  CHECK(record.resync(21).empty());
}

TEST_CASE("an acknowledgement lets go of what came before it only") {
  WorkerRecord record;
  record.take(audit(1), kStart, 10);
  record.take(audit(2), kStart, 11);
  record.acknowledged(10);
  CHECK(batches(record.resync(12)) == std::vector<std::uint64_t>{2});
}

TEST_CASE(
    "reports that wait for the supervisor are bounded in number and bytes, and lost ones are counted and reported "
    "once") {
  const auto lost = [](const std::vector<WorkerUp>& resync) {
    for (const auto& message : resync) {
      const auto* note = std::get_if<WorkerNote>(&message);
      if (note != nullptr && note->key == "messages_lost") return note->value;
    }
    return std::string();
  };
  WorkerRecord many;
  for (std::size_t i = 1; i <= WorkerRecord::kMaxKept + 3; ++i) many.take(audit(i), kStart, 1);
  const auto resync = many.resync(2);
  CHECK(batches(resync).size() == WorkerRecord::kMaxKept);
  CHECK(batches(resync).front() == 4);
  CHECK(lost(resync).starts_with("3 notes or audit batches"));
  CHECK(lost(many.resync(3)).empty());

  WorkerRecord large;
  for (int i = 0; i < 20; ++i) large.take(WorkerNote{"k", std::string(1u << 20, 'x')}, kStart, 1);
  CHECK(large.resync(2).size() <= WorkerRecord::kMaxKeptBytes / (1u << 20) + 1);
  CHECK(large.resync(2).size() >= 7);
}

TEST_CASE("while the supervisor acknowledges nothing counts as lost") {
  WorkerRecord record;
  for (std::size_t i = 1; i <= WorkerRecord::kMaxKept + 3; ++i) record.take(audit(i), kStart, 1);
  record.acknowledged(1);
  CHECK(record.resync(2).empty());
}

TEST_CASE("numbers of reports that fall end the process") {
  const auto ended = elastictrain::test::in_a_process([] {
    WorkerRecord record;
    record.take(audit(1), kStart, 5);
    record.take(audit(2), kStart, 4);
  });
  CHECK(ended.violated("numbers of reports only rise"));
}

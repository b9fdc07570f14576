// Purpose: the agent's record of one worker from the worker's messages, by which it brings a supervisor that was away
// up to date and combines heartbeats.
//
// A message that has later versions (hello, ready, prepared, active, halted, the end), and a TERM that was received, is
// kept in its last version and repeated after every reconnect: receiving it twice changes nothing. A supervisor that
// has acknowledged a TERM may be lost before it has acted on it. A message that has none (audit batches, notes, costs
// of changes) is kept until the supervisor has acknowledged a report that was sent after it, so that it is lost neither
// with a broken connection nor with a supervisor that failed before it read it; it may then arrive twice.
//
// Thread: pure. Errors: none; messages that do not fit are counted and reported.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "supervisor/protocol/agent_messages.h"

namespace elastictrain::launcher {

// Two heartbeats combined: the newer one's state, the timings of both weighted by their steps.
protocol::WorkerHeartbeat fold(const protocol::WorkerHeartbeat& older, const protocol::WorkerHeartbeat& newer);

// The kernel's data about the worker's process.
struct ProcessSample {
  std::uint64_t cpu_ms = 0;
  bool stopped = false;
};

class WorkerRecord {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Limit for the messages that wait for an acknowledgement, for each worker.
  static constexpr std::size_t kMaxKept = 8192;
  static constexpr std::size_t kMaxKeptBytes = 8u << 20;

  // What is sent at once. Nothing: it was combined (a heartbeat) and is sent with the next report, or ends here.
  // `next_report`: sequence number of the first report that will be sent after it.
  std::optional<protocol::WorkerUp> take(protocol::WorkerToAgent message, TimePoint now, std::uint64_t next_report);
  // Messages since the last report, those that were combined left out.
  std::uint32_t taken() const { return taken_; }
  void report_begins() { taken_ = 0; }
  // All messages up to this report have been received.
  void acknowledged(std::uint64_t report);
  // The messages that a supervisor without knowledge of this worker needs, in the order of a worker's life cycle.
  std::vector<protocol::WorkerUp> resync(std::uint64_t next_report);

  bool has_greeted() const { return hello_.has_value(); }
  bool is_ready() const { return ready_.has_value() && !over_; }
  bool has_finished() const { return ending_ && std::holds_alternative<protocol::WorkerFinished>(*ending_); }
  // Its entry in the next report, if it has one: new numbers, or a silence longer than `quiet_after`.
  std::optional<protocol::WorkerSample> sample(WorkerId worker, TimePoint now, std::chrono::milliseconds quiet_after,
                                               const ProcessSample& process);

 private:
  struct Kept {
    protocol::WorkerUp message;
    std::size_t bytes = 0;
    std::uint64_t report = 0;
  };

  void remember(const protocol::WorkerUp& message);
  void keep(const protocol::WorkerUp& message, std::uint64_t next_report);
  void forget_oldest();
  bool should_speak() const { return hello_.has_value() && !over_; }

  std::optional<protocol::WorkerUp> hello_;
  std::optional<protocol::WorkerUp> ready_;
  std::optional<protocol::WorkerUp> preparation_;  // the last WorkerPrepared or WorkerPrepareFailed
  std::optional<protocol::WorkerUp> active_;
  std::optional<protocol::WorkerUp> halted_;  // after `active_`
  std::optional<protocol::WorkerUp> term_;    // a TERM that the worker did not end on
  std::optional<protocol::WorkerUp> ending_;  // WorkerLeft or WorkerFinished
  std::deque<Kept> kept_;
  std::size_t kept_bytes_ = 0;
  std::uint32_t taken_ = 0;
  std::uint64_t lost_ = 0;  // did not fit, not reported yet
  std::optional<protocol::WorkerHeartbeat> heartbeat_;
  bool heartbeat_is_new_ = false;
  bool was_stopped_ = false;
  bool over_ = false;
  TimePoint last_seen_;
};

}  // namespace elastictrain::launcher

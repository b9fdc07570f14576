// Purpose: what the agent knows about one worker from its own messages, so that a supervisor that was away can be told
// the current truth, and so that heartbeats travel folded.
//
// Thread: pure. Failure: none.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <vector>

#include "supervisor/protocol/message.h"

namespace elastictrain::launcher {

// Two heartbeats as one: the newer one's state, the timings of both weighted by their steps.
protocol::WorkerHeartbeat fold(const protocol::WorkerHeartbeat& older, const protocol::WorkerHeartbeat& newer);

class WorkerRecord {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // True: the message goes up at once. False: it was folded (a heartbeat) and goes with the next report.
  bool take(const protocol::WorkerUp& message, TimePoint now);
  // Its entry of the next report, if it has one: new numbers, or a silence longer than `quiet_after`.
  std::optional<protocol::WorkerPulse> pulse(WorkerId worker, TimePoint now, std::chrono::milliseconds quiet_after);
  // What a supervisor must hear that knows nothing of what this worker said.
  std::vector<protocol::WorkerUp> truth() const;
  // Keeps what has no later version (notes, audits) until truth() is asked for; bounded.
  void keep_for_later(const protocol::WorkerUp& message);
  void clear_kept() { kept_.clear(); }

 private:
  static constexpr std::size_t kMaxKept = 1024;
  bool should_speak() const { return hello_.has_value() && !over_; }

  std::optional<protocol::WorkerUp> hello_;
  std::optional<protocol::WorkerUp> ready_;
  std::optional<protocol::WorkerUp> preparation_;  // the last WorkerPrepared or WorkerPrepareFailed
  std::optional<protocol::WorkerUp> active_;
  std::optional<protocol::WorkerUp> ending_;  // WorkerLeft or WorkerFinished
  std::deque<protocol::WorkerUp> kept_;
  std::optional<protocol::WorkerHeartbeat> heartbeat_;
  bool heartbeat_is_new_ = false;
  bool over_ = false;
  TimePoint last_heard_;
};

}  // namespace elastictrain::launcher

// Purpose: messages of a worker and its program to the supervisor besides the protocol of changes: reports in words,
// notes for the journal, and requests for a change of the run.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "supervisor/protocol/allowance.h"
#include "supervisor/protocol/worker_messages.h"
#include "train/session/generation.h"

// This worker's reports in words: to the supervisor, which writes them to the journal, or on standard error
// without a launcher. Ownership: none; the control plane is the session's. Thread: any. Failure: none.

namespace elastictrain::session {

class ControlPlane;

class Reports {
 public:
  explicit Reports(ControlPlane* plane) : plane_(plane) {}  // null without a launcher

  void tell(std::string_view key, const std::string& text) const;
  void send(const protocol::WorkerToAgent& message) const;  // nothing without a launcher

 private:
  ControlPlane* const plane_;
};

// The program's notes for the journal, as many as a run keeps: those beyond the limit are dropped, counted and
// reported, because a program that writes one in each of its fast steps must not hold up the messages of its host.
//
// Ownership: the worker. Thread: the training thread. Failure: add() throws SessionError for one that is too long.

class Notes {
 public:
  static constexpr std::size_t kMaxKeyBytes = 256;
  static constexpr std::size_t kMaxValueBytes = 64 << 10;
  static constexpr int kAtOnce = 1000;  // of up to 1 KiB; a longer one counts as several
  static constexpr int kPerSecond = 50;

  explicit Notes(const Reports& reports) : reports_(reports) {}

  void add(std::string_view key, std::string_view value, std::chrono::steady_clock::time_point now);
  // What was dropped and not yet reported.
  void close();

 private:
  const Reports& reports_;
  protocol::Allowance allowance_{kAtOnce, kPerSecond};
  protocol::Allowance report_allowance_{1, 0.1};
  std::uint64_t dropped_ = 0;
};

// The program's requests for a change of the run. All workers may ask; the first rank's request counts, and
// one that is already pending is not sent again. A program that changes its mind in each of its fast steps sends its
// latest request with the next heartbeat.
//
// Ownership: the worker. Thread: the training thread; take_waiting() is the control thread's. Failure: none.

class Requests {
 public:
  Requests(const Assignment& assignment, const Reports& reports) : assignment_(assignment), reports_(reports) {}

  void ask(const protocol::WorkerRequest& request, protocol::Allowance::TimePoint now);
  std::optional<protocol::WorkerRequest> take_waiting();

 private:
  void send(const protocol::WorkerRequest& news, protocol::Allowance::TimePoint now);

  const Assignment& assignment_;
  const Reports& reports_;
  protocol::WorkerRequest asked_;  // the latest
  protocol::Allowance allowance_{20, 4};
  std::mutex mutex_;
  std::optional<protocol::WorkerRequest> waiting_;  // guarded by mutex_
};

}  // namespace elastictrain::session

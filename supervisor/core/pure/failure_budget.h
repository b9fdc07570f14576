// Purpose: limits on failures: the budget of losses of each class, and the time for which a failing host stays
// unused. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "supervisor/core/pure/settings.h"
#include "supervisor/protocol/ids.h"

// The failure budget of a run: limits on losses of each class, and on recoveries without progress between
// them. Pure: the owner reports what was lost and when, and ends the run when the answer requires it.
//
// Each class is counted separately, within a sliding window: crash (the program exited by itself), hang (ended because
// it made no progress), infrastructure (host, agent, network), preemption (taken away by somebody entitled to; never
// limited). A class that exceeds its limit ends the run: crash with the worker's status, hang with 93, infrastructure
// with 69. More than max_fruitless recoveries in a row without a committed step between them also end it: with the
// status of the last worker that crashed meanwhile, otherwise with 93.
//
// Ownership and thread: those of the state machine that holds it. Memory: the losses of one window, at most kMaxKept
// for each class.

namespace elastictrain::core {

inline constexpr std::size_t kFailureClasses = 4;
const char* class_name(FailureClass failure);

// Do not start this run again as it is: it makes no progress.
inline constexpr int kStatusFruitless = 93;
inline constexpr int kStatusUnavailable = 69;

// What was lost, and how it affects the end of the run.
struct Loss {
  FailureClass what = FailureClass::kCrash;
  int status = kStatusUnavailable;
  std::string host;        // set if the host may be the cause
  std::string text;        // "rank 1 (w2 on B) was killed by signal 9"
  std::string detail;      // its last error output, or what to do
  bool by_itself = false;  // the program exited on its own
  bool out_of_memory = false;
};

// Why the run must end now.
struct BudgetEnd {
  int status = 0;
  std::string reason;
};

class FailureBudget {
 public:
  static constexpr std::size_t kMaxKept = 4096;

  explicit FailureBudget(const FailureSettings& settings) : settings_(settings) {}

  // Records the loss; returns an end when its class is over its limit.
  std::optional<BudgetEnd> charge(const Loss& loss, Instant now);

  // A recovery is about to begin. `progress`: a step was committed since the previous one. `step`: where the run
  // continues. `cause`: what was lost.
  std::optional<BudgetEnd> recovers(bool progress, Step step, const std::string& cause);

  std::size_t count(FailureClass failure, Instant now) const;  // within the window
  std::uint64_t total(FailureClass failure) const { return totals_[static_cast<std::size_t>(failure)]; }
  std::uint32_t limit(FailureClass failure) const;
  std::uint32_t fruitless() const { return fruitless_; }

 private:
  std::string window_text() const;
  BudgetEnd over_limit(const Loss& loss, std::size_t count, std::uint32_t limit) const;

  FailureSettings settings_;
  std::array<std::deque<Instant>, kFailureClasses> losses_;
  std::array<std::uint64_t, kFailureClasses> totals_{};
  std::uint32_t fruitless_ = 0;
  std::optional<Loss> last_crash_;  // since the last progress
  bool crash_is_new_ = false;       // recorded since the last recovery
};

// Recent failures of hosts, and when each may be used again. Pure: the owner reports what happened to which
// host, asks before it starts anything on a host, and never reports a graceful leave, a notice or a planned end.
//
// The first failure of a host has no consequence. From the second failure in a row on, the host cools down: nothing is
// started there for cool_down, which doubles with each further failure up to cool_down_max. Success clears the record:
// one of its workers became a member and trained for as long as the cool-down was.
//
// Ownership and thread: those of the state machine that holds it. Hosts are identified by name, because a host that
// comes back has a new agent.

class HostHealth {
 public:
  struct Cooled {
    std::string host;
    std::uint32_t failures = 0;
    Instant until;
    std::string reason;  // of the last failure
  };

  explicit HostHealth(const FailureSettings& settings) : settings_(settings) {}

  // Returns when the host may be used again, if it is cooled now. Failures at one instant count as one (a lost host
  // takes all of its workers with it).
  std::optional<Instant> failed(const std::string& host, const std::string& reason, Instant now);
  // A worker on it has become a member, or still is one: called at every change of the membership.
  void trains(const std::string& host, Instant now);
  // None of its workers is a member any more.
  void rests(const std::string& host);

  bool usable(const std::string& host, Instant now) const;
  std::optional<Instant> cooled_until(const std::string& host, Instant now) const;
  std::uint32_t failures(const std::string& host, Instant now) const;
  std::vector<Cooled> cooled(Instant now) const;
  // The cool-down after this many failures in a row.
  Millis cool_down(std::uint32_t failures) const;
  // "host B failed 3 times in a row (link down) and is not used for 20 s"; empty if it is not cooled.
  std::string text(const std::string& host, Instant now) const;

 private:
  struct Record {
    std::uint32_t failures = 0;
    Instant last;
    Instant until;
    std::optional<Instant> trains_since;
    std::string reason;
  };

  bool verified(const Record& record, Instant now) const;

  FailureSettings settings_;
  std::map<std::string, Record> records_;
};

}  // namespace elastictrain::core

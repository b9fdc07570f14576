// Purpose: the failure budget of a run: limits on losses of each class, and on recoveries without progress between
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
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "supervisor/core/pure/settings.h"
#include "supervisor/protocol/ids.h"

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

}  // namespace elastictrain::core

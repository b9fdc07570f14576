// Purpose: how many losses of which class a run bears, and whether it gets anywhere between them. Pure: the owner says
// what was lost and when, and ends the run when the answer says so.
//
// Classes are counted apart, each within a sliding window: crash (the program ended by itself), hang (ended because it
// made no progress), infrastructure (host, agent, network), preemption (taken away by somebody who may; never limited).
// A class that is over its limit ends the run: crash with the worker's status, hang with 93, infrastructure with 69. So
// do more than max_fruitless recoveries in a row without a committed step between them: with the status of the last
// worker that crashed meanwhile, else with 93.
//
// Ownership and thread: those of the state machine that holds it. Memory: the losses of one window, at most kMostKept
// for each class.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "supervisor/core/settings.h"
#include "supervisor/protocol/ids.h"

namespace elastictrain::core {

inline constexpr std::size_t kFailureClasses = 4;
const char* class_name(FailureClass failure);

// Do not start this run again as it is: it gets nowhere.
inline constexpr int kStatusFruitless = 93;
inline constexpr int kStatusUnavailable = 69;

// What was lost, and what it would mean for the run's end.
struct Loss {
  FailureClass what = FailureClass::kCrash;
  int status = kStatusUnavailable;
  std::string host;        // where, if the host may be to blame
  std::string text;        // "rank 1 (w2 on B) was killed by signal 9"
  std::string detail;      // its last error output, or what to do
  bool by_itself = false;  // the program ended of its own accord
};

// Why the run must end now.
struct BudgetEnd {
  int status = 0;
  std::string reason;
};

class FailureBudget {
 public:
  static constexpr std::size_t kMostKept = 4096;

  explicit FailureBudget(const FailureSettings& settings) : settings_(settings) {}

  // Books the loss; returns an end when its class is over its limit.
  std::optional<BudgetEnd> charge(const Loss& loss, Instant now);

  // A recovery is about to begin. `progress`: a step was committed since the one before. `step`: where it goes on from.
  // `cause`: what was lost.
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
  std::optional<Loss> last_crash_;  // since there was progress
  bool crash_is_new_ = false;       // charged since the last recovery
};

}  // namespace elastictrain::core

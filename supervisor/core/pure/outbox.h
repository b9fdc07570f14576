// Purpose: the output of one step of the state machine: actions in order, timers, and whether the desired and the
// actual state must be compared again. Every component writes here; the time of the step is read here.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "supervisor/core/pure/action.h"
#include "supervisor/protocol/ids.h"

namespace elastictrain::core {

enum class TimerKind : std::uint8_t {
  kStart,       // slots for start_workers should be available
  kFixed,       // a program that uses the library should have said so
  kAgentLook,   // the failure detector must look at an agent
  kReady,       // a worker should be ready
  kLeave,       // a worker that was asked to end should be gone
  kPrepare,     // all workers should have answered Prepare
  kRetry,       // Prepare may be tried again
  kGrace,       // a drain should be over
  kEnd,         // all agents should be gone
  kHalt,        // all workers should have answered Abort
  kWaitForMin,  // enough workers should be available again
  kReconnect,   // an agent whose connection broke should be back
  kVanished,    // a worker that its agent does not list should have exited, as a separate event reports
  kRelaunch,    // a lost host may be tried again
  kStacks,      // the stacks of a hung worker should be known
  kCooled,      // a host or slot that failed repeatedly may be used again
  kHold,        // a user's size should count against the policy no longer
  kNotices,     // the other receivers of a TERM should have reported it
};

struct TimerUse {
  TimerKind kind = TimerKind::kStart;
  WorkerId worker;
  AgentId agent;
};

// What each armed timer is for. A number is used once, so a timer that fires after it was cancelled finds no entry and
// changes nothing.
class TimerBook {
 public:
  std::uint64_t add(TimerUse use) {
    uses_.emplace(++last_, use);
    return last_;
  }
  // Returns false when the timer is not armed.
  bool remove(std::uint64_t timer) { return uses_.erase(timer) > 0; }
  std::optional<TimerUse> take(std::uint64_t timer) {
    const auto found = uses_.find(timer);
    if (found == uses_.end()) return std::nullopt;
    const TimerUse use = found->second;
    uses_.erase(found);
    return use;
  }

 private:
  std::uint64_t last_ = 0;
  std::unordered_map<std::uint64_t, TimerUse> uses_;
};

class Outbox {
 public:
  void begin_step(Instant now);
  Instant now() const { return now_; }
  const Actions& actions() const { return actions_; }
  Actions take_actions() { return std::exchange(actions_, {}); }

  template <class T>  // an alternative of Action; compiled in outbox.cc
  void emit(T action);
  // Before the actions that carry out what it records.
  template <class R>
  void journal(R about, bool sync = false) {
    emit(Journal(std::in_place_type<R>, std::move(about), sync));
  }
  void send(std::vector<WorkerId> workers, protocol::WorkerDown message);
  void tell(Tell::Level level, std::string text);

  std::uint64_t arm(TimerUse use, Instant when);
  // Sets `timer` to 0.
  void cancel(std::uint64_t& timer);
  // Nothing: it was cancelled.
  std::optional<TimerUse> take_timer(std::uint64_t timer) { return timers_.take(timer); }

  // Something changed that the comparison of the desired state with the actual one must see.
  void look_again() { look_again_ = true; }
  bool must_look() const { return look_again_; }
  void looked() { look_again_ = false; }

 private:
  Instant now_;
  Actions actions_;
  TimerBook timers_;
  bool look_again_ = false;
};

}  // namespace elastictrain::core

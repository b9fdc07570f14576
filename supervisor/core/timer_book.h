// Purpose: remembers what each armed timer of the state machine is for. A number is used once, so a timer that fires
// after it was cancelled finds nothing here and changes nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "supervisor/protocol/ids.h"

namespace elastictrain::core {

enum class TimerKind : std::uint8_t {
  kStart,       // slots for start_workers should be there
  kAgentLook,   // the failure detector wants to look at an agent
  kReady,       // a worker should be ready
  kLeave,       // a worker that was asked to end should be gone
  kPrepare,     // all should have answered Prepare
  kRetry,       // Prepare may be tried again
  kGrace,       // a drain should be over
  kEnd,         // everybody should be gone
  kHalt,        // all should have answered Abort
  kWaitForMin,  // enough workers should be there again
  kReconnect,   // an agent whose connection broke should be back
  kVanished,    // a worker that its agent does not list should have ended by an event of its own
  kRelaunch,    // a lost host may be tried again
  kStacks,      // where a hung worker is stuck should be known
  kCooled,      // a host or slot that failed again and again may be used again
  kNotices,     // whoever got TERM together with a worker should have said so
};

struct TimerUse {
  TimerKind kind = TimerKind::kStart;
  WorkerId worker;
  AgentId agent;
};

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

}  // namespace elastictrain::core

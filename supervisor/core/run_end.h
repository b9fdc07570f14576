// Purpose: whether and how a run ends. Plain data.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "supervisor/protocol/ids.h"

namespace elastictrain::core {

// The status of a run that trained to its end with samples missing or repeated, or with unequal parameters.
inline constexpr int kStatusAuditFailed = 94;
inline constexpr int kStatusLastStateLost = 74;  // of a run that ended as it should: its last state is on no disk
inline constexpr int kStatusComeAgain = 75;

// kFinishing: the program reached its end. kDraining: at the next step boundary. kNow: at once.
enum class EndMode : std::uint8_t { kNone, kFinishing, kDraining, kNow };

struct RunEnd {
  EndMode mode = EndMode::kNone;
  int status = 0;
  std::string reason;
  bool suspended = false;       // the run is to go on when the cluster has slots for it
  bool left_in_order = false;   // while the run drains: a worker reached its boundary
  bool is_limited = false;      // the processes of a program that has finished must end within the grace
  bool over = false;            // EndRun was requested
  std::set<WorkerId> finished;  // members whose program reached its end, even if the process has exited

  bool begun() const { return mode != EndMode::kNone; }
};

}  // namespace elastictrain::core

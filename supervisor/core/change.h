// Purpose: the change in flight, from one generation to the next. Plain data.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/plan_messages.h"

namespace elastictrain::core {

// kHalting: Abort was sent. kGathering: joiners are starting. kPreparing: Prepare was sent. kCommitted: the swap is in
// progress.
enum class Stage : std::uint8_t { kIdle, kHalting, kGathering, kPreparing, kCommitted };

struct Change {
  Stage stage = Stage::kIdle;
  Generation generation = 0;
  protocol::ChangeKind kind = protocol::ChangeKind::kStart;
  std::string reason;
  std::vector<WorkerId> members;
  std::vector<WorkerId> leavers;
  std::unordered_set<WorkerId> waiting;  // workers whose answer (kPreparing) or swap (kCommitted) is outstanding
  std::size_t not_ready = 0;
  bool any_active = false;  // a worker passed the boundary
  Step first_step = 0;      // of the new generation, once a worker reported it
  std::uint64_t timer = 0;  // kPrepare or kRetry
  bool retrying = false;    // waits for kRetry
  bool saves = false;       // made for a checkpoint
  std::uint32_t attempts = 0;
  std::set<WorkerId> failed;      // in the last attempt
  protocol::GenerationPlan plan;  // as sent

  bool plans(WorkerId id) const { return std::find(members.begin(), members.end(), id) != members.end(); }
  // After the commit.
  bool in_flight(WorkerId id) const { return stage == Stage::kCommitted && plans(id); }
};

}  // namespace elastictrain::core

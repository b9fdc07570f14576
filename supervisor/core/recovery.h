// Purpose: the way from a loss to the generation that follows it; the change in flight is that generation's. Meanwhile
// the members of Training are the remaining workers: by old ranks first; once they have answered, holders of the state
// come before the others.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "supervisor/core/roster.h"
#include "supervisor/protocol/ids.h"

namespace elastictrain::core {

class Outbox;
struct Startup;

struct Recovery {
  Generation fence = 0;              // 0: none
  std::vector<std::string> reasons;  // what was lost
  std::string suspicion;             // the reason given by a member whose collective failed
  std::vector<WorkerId> order;       // all workers concerned, by old ranks
  std::map<WorkerId, std::uint32_t> ranks;
  std::unordered_set<WorkerId> waiting;  // workers whose answer to the Abort is outstanding
  std::uint64_t halt_timer = 0;
  Step resume_step = 0;             // the step that counts, once all have answered
  bool gradients_are_left = false;  // a worker still holds those of the step after it
  bool progress = false;            // a step was committed since the previous recovery
  bool of_newcomers = false;        // new workers could not join: that is no failure
  // A change that was committed and that some workers may have adopted.
  Generation taken = 0;
  Step taken_first_step = 0;

  bool active() const { return fence != 0; }
  std::string cause() const;
  // Those concerned that still train.
  std::vector<WorkerId> living(const Roster& roster) const;
  // ... that of the step that counts.
  bool holds_state(const Worker* worker) const;
  // The next generation trains, or there is none.
  void end(Outbox& out, Startup& startup);
};

}  // namespace elastictrain::core

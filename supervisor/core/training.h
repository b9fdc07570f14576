// Purpose: the generation that trains, and what a run remembers of those before it. Plain data.
//
// Ownership and thread: those of the state machine.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/plan_messages.h"

namespace elastictrain::core {

struct Training {
  Generation generation = 0;      // 0: none yet, or none again
  Generation issued = 0;          // the highest number in use, by plans and fences
  Generation fence = 0;           // the newest one
  std::vector<WorkerId> members;  // by rank; set_members() changes them
  std::set<WorkerId> member_set;
  double learning_rate_factor = 1.0;
  protocol::Topology topology = protocol::Topology::kAuto;
  std::vector<std::uint32_t> parents;  // the explicit tree that replaces it; empty: none
  protocol::Synchronization synchronization = protocol::Synchronization::kGradients;
  std::string size_reason;
  std::string last_change;
  std::vector<protocol::Fence> lineage;  // generations that began, oldest first
  std::size_t size_before_loss = 0;      // until the next planned change
  bool restarting = false;               // all state was lost; `generation` is 0 again

  bool is_member(WorkerId id) const { return member_set.contains(id); }
  void set_members(std::vector<WorkerId> next);
  // False: it is known, or no worker began it. Known from the first member that takes its seat: the others may never
  // report it, nor may a supervisor that fails now.
  bool remember(Generation number, Step first_step);
};

}  // namespace elastictrain::core

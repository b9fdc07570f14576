// Purpose: members that are newer than the last agreement: where ranks disagree, or a program ends early, the newest of
// them are the suspects, and not those who were there before. A worker that joins a run that trains is on probation
// until the end of an epoch and two more steps have passed without a disagreement; a program without epochs has none of
// the former, so the newest members stay suspects.
//
// Ownership and thread: those of the state machine. Plain state; what follows from it is the halt's.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "supervisor/core/pure/roster.h"
#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/worker_messages.h"

namespace elastictrain::core {

class Probation {
 public:
  // A change is committed in which this worker joins members that train, in `epoch` as far as it is known.
  void begin(WorkerId id, Generation generation, std::uint64_t epoch);
  void active(WorkerId id, Step first_step);
  // Returns true if this worker has passed it.
  bool take(WorkerId id, const protocol::WorkerHeartbeat& heartbeat);
  void forget(WorkerId id) { newcomers_.erase(id); }
  void keep_known(const Roster& roster);  // forgets those whose processes are gone

  bool is_on(WorkerId id) const { return newcomers_.contains(id); }
  // It has not committed a step yet, as far as it is known.
  bool has_no_step(WorkerId id) const { return steps_of(id, 1); }
  bool is_in_first_steps(WorkerId id) const { return steps_of(id, kFirstSteps); }
  std::uint32_t without_a_step(const Roster& roster) const;
  // Those that train of the newest change up to `generation`.
  std::vector<WorkerId> suspects(const Roster& roster, Generation generation) const;

  static constexpr Step kFirstSteps = 2;  // after the end of an epoch

 private:
  struct Newcomer {
    Generation since = 0;
    std::uint64_t epoch = 0;
    Step first_step = 0;  // 0: not known yet
    Step committed = 0;
    Step epoch_began = 0;  // the first step known of a later epoch
  };

  bool steps_of(WorkerId id, Step fewer_than) const;

  std::map<WorkerId, Newcomer> newcomers_;
};

}  // namespace elastictrain::core

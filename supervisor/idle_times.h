// Purpose: the idle time of each change from what its survivors measured. Pure.
//
// Idle time is the longest time in which no worker committed a step, less a median step of the new size. Each survivor
// reports the gap between its own last commit before the change and its first one after it. No worker commits within
// the shortest of these gaps, so that one counts, with the median step of the same survivor. A change is closed when
// all survivors have reported, or with what there is when the next change is committed or the run ends.
#pragma once

#include <optional>
#include <set>

#include "supervisor/protocol/message.h"

namespace elastictrain {

class IdleTimes {
 public:
  struct Idle {
    Generation generation = 0;
    double seconds = 0;
  };

  void planned(const protocol::GenerationPlan& plan);
  // Of the change before, if it was still open.
  std::optional<Idle> committed(Generation generation);
  std::optional<Idle> measured(WorkerId worker, const protocol::WorkerSwap& swap);
  std::optional<Idle> close();

  // What an earlier supervisor of this run has measured, from its journal.
  void recall(double idle_s) {
    last_s_ = idle_s;
    total_s_ += idle_s;
  }

  double total_s() const { return total_s_; }
  // The last change's; nothing while it is not known, or where nothing has changed.
  std::optional<double> last_s() const { return last_s_; }

 private:
  Generation planned_ = 0;
  std::set<WorkerId> planned_survivors_;
  Generation open_ = 0;  // 0: none
  std::set<WorkerId> missing_;
  std::optional<protocol::WorkerSwap> shortest_;
  double total_s_ = 0;
  std::optional<double> last_s_;
};

}  // namespace elastictrain

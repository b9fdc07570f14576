// Purpose: the cost of a change to this worker: the time from its last commit before the change to its first one after
// it, reported together with a typical step time at the new size, which takes some steps to measure.
//
// Ownership: the session. Thread: training thread. Time is an argument.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "supervisor/protocol/worker_messages.h"

namespace elastictrain::session {

class SwapGap {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void committed(Time now);
  // This worker continues in `generation`, after the step that was committed last.
  void swapped(Generation generation);
  // The report on the last change, once, when enough steps have been measured.
  std::optional<protocol::WorkerSwap> take();
  // The same with the steps measured so far; nullopt if they do not give a typical step time.
  std::optional<protocol::WorkerSwap> take_early();

 private:
  Generation generation_ = 0;  // 0: nothing to report
  Time last_commit_{};
  std::vector<double> gaps_us_;  // the first is the one of the change
};

}  // namespace elastictrain::session

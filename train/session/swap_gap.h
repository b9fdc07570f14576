// Purpose: what a change costs this worker: the time from its last commit before it to its first one after it, told
// together with a typical step at the new size, for which some steps have to pass.
//
// Ownership: the session. Thread: training thread. Time is an argument.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "supervisor/protocol/message.h"

namespace elastictrain::session {

class SwapGap {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void committed(Time now);
  // This worker goes on in `generation`, after the step that was committed last.
  void swapped(Generation generation);
  // The report on the last change, once, when enough steps have passed.
  std::optional<protocol::WorkerSwap> take();
  // The same with the steps there are; nothing where they do not tell a typical step.
  std::optional<protocol::WorkerSwap> take_early();

 private:
  Generation generation_ = 0;  // 0: nothing to report
  Time last_commit_{};
  std::vector<double> gaps_us_;  // the first is that of the change
};

}  // namespace elastictrain::session

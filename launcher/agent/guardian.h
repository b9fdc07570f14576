// Purpose: the process that remains when an agent is killed. Workers get TERM from the kernel then, but one that
// ignores it, or a grandchild, would be left behind; the guardian waits for the grace and kills what is left of the
// session. It also kills an agent that gives no sign of life for a long time (stopped by a signal, or hung): its
// supervisor has given it up, and no other process would end its workers.
//
// Thread: call before anything else runs in the process. Ownership: the guardian is a child that ends with the agent's
// descendants. Errors: without a guardian (no process available) the agent works all the same.
#pragma once

#include <chrono>

namespace elastictrain::launcher {

class Guardian {
 public:
  // The caller must lead its session. `silence_limit`: between two signs of life.
  static Guardian start(std::chrono::milliseconds grace, std::chrono::milliseconds silence_limit);

  // Never blocks.
  void sign_of_life();

 private:
  explicit Guardian(int pipe) : pipe_(pipe) {}
  int pipe_;  // open until this process is gone, for any reason; -1 without a guardian
};

}  // namespace elastictrain::launcher

// Purpose: the one that stays when an agent is killed. Workers get TERM from the kernel then, but one that ignores it,
// or a grandchild, would be left behind; the guardian waits for the grace and kills what is left of the session. An
// agent that shows no sign of life for long (stopped by a signal, or hanging) is killed by it: its supervisor has given
// it up, and nobody else would end its workers.
//
// Thread: call before anything else runs in the process. Ownership: the guardian is a child that ends with the agent's
// offspring. Failure: without a guardian (no process to be had) the agent works all the same.
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
  int pipe_;  // open until this process is gone, however it goes; -1 without a guardian
};

}  // namespace elastictrain::launcher

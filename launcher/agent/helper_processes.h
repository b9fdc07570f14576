// Purpose: the helper processes of an agent: a proxy that lets it outlive its MPI launch, and a guardian that ends
// its workers when it is killed. Both release the standard streams that they inherit.
#pragma once

#include <chrono>
#include <initializer_list>

#include "supervisor/protocol/result.h"

// Releases standard streams that belong to the process that started this one, which may wait for their end or
// be gone. Thread: any, while no other thread uses them. Errors: none; without /dev/null they stay as they are.

namespace elastictrain::launcher {

// Each of these descriptors refers to /dev/null from here on.
void point_at_null(std::initializer_list<int> streams);

// Lets an agent outlive the launch that started it. An MPI launch that ends, because its command was killed or
// because it lost one host of many, kills the processes that it knows on all hosts; so it knows only a launch proxy,
// and the agent is a child of that proxy.
//
// Thread: the only one of its process. Errors: leave_launch_proxy() reports why there is no second process.

// The calling process becomes the launch proxy: it waits for the agent and exits as the agent does, which is what the
// launch sees. Returns in the agent. `tied`: until outlive_launch_proxy() the agent is killed with its launch proxy.
Status leave_launch_proxy(bool tied);

void outlive_launch_proxy();

// The process that remains when an agent is killed. Workers get TERM from the kernel then, but one that
// ignores it, or a grandchild, would be left behind; the guardian waits for the grace and kills what is left of the
// session. It also kills an agent that gives no sign of life for a long time (stopped by a signal, or hung): its
// supervisor has given it up, and no other process would end its workers.
//
// Thread: call before anything else runs in the process. Ownership: the guardian is a child that ends with the agent's
// descendants. Errors: without a guardian (no process available) the agent works all the same.

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

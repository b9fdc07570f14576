// Purpose: the one that stays when an agent is killed. Workers get TERM from the kernel then, but one that ignores it,
// or a grandchild, would be left behind; the guardian waits for the grace and kills what is left of the session.
//
// Thread: call before anything else runs in the process. Ownership: the guardian is a child that ends with the agent's
// offspring. Failure: without a guardian (no process to be had) the agent works all the same.
#pragma once

#include <chrono>

namespace elastictrain::launcher {

// The caller must lead its session.
void start_guardian(std::chrono::milliseconds grace);

}  // namespace elastictrain::launcher

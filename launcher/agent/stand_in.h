// Purpose: lets an agent outlive the launch that started it. An MPI launch that ends, because its command was killed or
// because it lost one host of many, kills what it knows on all hosts; so it knows only a stand-in, and the agent is a
// child of that one.
//
// Thread: the only one of its process. Failure: leave_stand_in() says why there is no second process.
#pragma once

#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

// The calling process stays behind: it waits for the agent and ends as the agent does, which is what the launch sees.
// Returns in the agent. `tied`: until outlive_stand_in() the agent is killed with its stand-in.
Status leave_stand_in(bool tied);

void outlive_stand_in();

}  // namespace elastictrain::launcher

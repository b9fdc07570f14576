// Purpose: lets an agent outlive the launch that started it. An MPI launch that ends, because its command was killed or
// because it lost one host of many, kills the processes that it knows on all hosts; so it knows only a launch proxy,
// and the agent is a child of that proxy.
//
// Thread: the only one of its process. Errors: leave_launch_proxy() reports why there is no second process.
#pragma once

#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

// The calling process becomes the launch proxy: it waits for the agent and exits as the agent does, which is what the
// launch sees. Returns in the agent. `tied`: until outlive_launch_proxy() the agent is killed with its launch proxy.
Status leave_launch_proxy(bool tied);

void outlive_launch_proxy();

}  // namespace elastictrain::launcher

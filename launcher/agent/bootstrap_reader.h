// Purpose: reads the one frame that an agent gets on its standard input.
// Thread: blocks the caller up to the deadline. Failure: end of input, rubbish, another protocol version, time.
#pragma once

#include <chrono>

#include "supervisor/protocol/message.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

Result<protocol::AgentBootstrap> read_bootstrap(int descriptor, std::chrono::milliseconds timeout);

}  // namespace elastictrain::launcher

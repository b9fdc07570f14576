// Purpose: reads the frame with all parameters of an agent: from its standard input, or, in an MPI pool, where only one
// process has a standard input, from a private file with a frame for each rank.
// Thread: blocks the caller up to the deadline. Errors: end of input, malformed data, another protocol version,
// time-out, a file that is missing or not private.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

Result<protocol::AgentBootstrap> read_bootstrap(int descriptor, std::chrono::milliseconds timeout);

// The frame of this rank in a pool's file (launcher/mpi/pool_file.h).
Result<protocol::AgentBootstrap> read_pool_bootstrap(const std::string& path, std::uint32_t rank);

}  // namespace elastictrain::launcher

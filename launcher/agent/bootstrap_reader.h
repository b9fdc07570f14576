// Purpose: reads the one frame that tells an agent everything: from its standard input, or, in an MPI pool, where only
// one process has one, from a private file with a frame for each rank.
// Thread: blocks the caller up to the deadline. Failure: end of input, rubbish, another protocol version, time, a file
// that is not here or not private.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "supervisor/protocol/message.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

Result<protocol::AgentBootstrap> read_bootstrap(int descriptor, std::chrono::milliseconds timeout);

// The frame of this rank in a pool's file (launcher/mpi/pool_file.h).
Result<protocol::AgentBootstrap> read_pool_bootstrap(const std::string& path, std::uint32_t rank);

}  // namespace elastictrain::launcher

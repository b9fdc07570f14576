// Purpose: the agent, the launcher's process on each host: reads its bootstrap frame, takes its host over from an
// older agent, and runs the service until the run ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/result.h"

// Reads the frame with all parameters of an agent: from its standard input, or, in an MPI pool, where only one
// process has a standard input, from a private file with a frame for each rank.
// Thread: blocks the caller up to the deadline. Errors: end of input, malformed data, another protocol version,
// time-out, a file that is missing or not private.

namespace elastictrain::launcher {

Result<protocol::AgentBootstrap> read_bootstrap(int descriptor, std::chrono::milliseconds timeout);

// The frame of this rank in a pool's file (launcher/mpi/mpi_pool.h).
Result<protocol::AgentBootstrap> read_pool_bootstrap(const std::string& path, std::uint32_t rank);

// The agent, the launcher's process on each host: starts workers, relays their messages, collects their output
// and ends them. It receives all its parameters over stdin (one bootstrap frame; in an MPI pool: in a private file) and
// its TLS connection; argv and the environment hold none.
//
// Thread: the caller's, until the agent ends. Errors: a message on stderr and an exit status (see AgentExit).

enum AgentExit : int {
  kAgentStopped = 0,       // stopped on request (by the supervisor or a signal); every worker has exited
  kAgentUnreachable = 69,  // the supervisor cannot be reached, or was gone for longer than the orphan grace
  kAgentFailed = 70,       // no usable bootstrap, or this host lacks something that an agent needs
};

struct AgentStart {
  // The agent is a rank of an MPI pool and reads its bootstrap from this file; empty: from stdin.
  std::string pool_file = {};
  // The agent does not end with the process that started it (a pool's rank calls this once its worker has joined MPI).
  bool outlives_launch = false;
};

// The whole life cycle of an agent: bootstrap, service, clean end. Call once per process.
int run_agent(const AgentStart& how = {});

}  // namespace elastictrain::launcher

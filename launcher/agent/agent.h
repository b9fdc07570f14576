// Purpose: the agent, the launcher's process on each host: starts workers, relays their messages, collects their output
// and ends them. It receives all its parameters over stdin (one bootstrap frame; in an MPI pool: in a private file) and
// its TLS connection; argv and the environment hold none.
//
// Thread: the caller's, until the agent ends. Errors: a message on stderr and an exit status (see AgentExit).
#pragma once

#include <string>

namespace elastictrain::launcher {

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

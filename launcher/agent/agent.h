// Purpose: the agent, the one process of ours on each host: starts workers, relays their messages, collects their
// output and ends them. It is told everything over stdin (one bootstrap frame; in an MPI pool: in a private file) and
// its TLS connection; argv and the environment hold nothing.
//
// Thread: the caller's, until the agent ends. Failure: a message on stderr and an exit status (see AgentExit).
#pragma once

#include <string>

namespace elastictrain::launcher {

enum AgentExit : int {
  kAgentStopped = 0,       // told to stop (by the supervisor or a signal); every worker has ended
  kAgentUnreachable = 69,  // the supervisor cannot be reached, or was gone for longer than the orphan grace
  kAgentFailed = 70,       // no usable bootstrap, or this host cannot give what an agent needs
};

struct AgentStart {
  // The agent is a rank of an MPI pool and finds its bootstrap in this file; empty: it comes over stdin.
  std::string pool_file = {};
  // The end of what started it is no end of the agent (a pool's rank does so once its worker has joined MPI).
  bool outlives_launch = false;
};

// The whole life of an agent: bootstrap, service, clean end. Call once per process.
int run_agent(const AgentStart& how = {});

}  // namespace elastictrain::launcher

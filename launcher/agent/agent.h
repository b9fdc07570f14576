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

// The whole life of an agent: bootstrap, service, clean end. Call once per process. `pool_file`: the agent is a rank of
// an MPI pool and finds its bootstrap there; empty: it comes over stdin.
int run_agent(const std::string& pool_file = {});

}  // namespace elastictrain::launcher

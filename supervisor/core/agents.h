// Purpose: agents that connect, report, fall silent and are lost; connections that break and recover; lost hosts that
// are tried again.
#pragma once

#include <string>

#include "supervisor/core/run.h"

namespace elastictrain::core {

void on(Run& run, const AgentConnected& event);
void on(Run& run, const AgentReported& event);
void on(Run& run, const AgentLost& event);
void lose_agent(Run& run, Agent& agent, const std::string& reason);
void look_at_agent(Run& run, AgentId id);
// A member on another host lost its peers: agents that are cut off get less time to reconnect.
void doubt_others(Run& run, AgentId witness);
void reconnect_timed_out(Run& run, AgentId id);
void worker_vanished(Run& run, const Worker& gone);
void relaunch_host(Run& run, AgentId id);

}  // namespace elastictrain::core

// Purpose: agents of a run that connect, fall silent, are lost and come back, also to a supervisor that takes the
// run over.
#pragma once

#include <string>

#include "supervisor/core/run.h"

// Agents that connect, report, fall silent and are lost; connections that break and recover; lost hosts that
// are tried again.

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

// Takes a run over from a supervisor that is gone. Its agents and workers were not notified: they train on,
// come back one by one, and each repeats its latest messages.

void on(Run& run, const Resumed& event);
// Nothing is decided before every agent is back or given up.
void advance_takeover(Run& run);

}  // namespace elastictrain::core

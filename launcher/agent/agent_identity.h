// Purpose: records the agent that owns a private directory, so that an agent that is launched again on a host ends the
// one of the same run that was given up there: their workers must not compete for the host's slots.
//
// Thread: any. Errors: an agent that cannot be found is left running; it ends by itself after its orphan grace.
#pragma once

#include <string>

#include "supervisor/protocol/agent_messages.h"

namespace elastictrain::launcher {

// Records the identity of this agent in its directory: the run (by a hash of its key), the host's name, the agent's id
// and its process. Without this record it matches no run.
void write_identity(const std::string& directory, const protocol::AgentBootstrap& bootstrap);

// Kills the agents next to `own_directory` that serve the same run on the same host with a lower id, and with them
// (through their guardians) what they started. Returns how many there were.
int end_older_agents(const std::string& own_directory, const protocol::AgentBootstrap& bootstrap);

}  // namespace elastictrain::launcher

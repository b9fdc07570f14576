// Purpose: whose agent lives in a private directory, so that an agent which is launched anew on a host ends the one of
// the same run that was given up there: their workers must not compete for the host's slots.
//
// Thread: any. Failure: an agent that cannot be found is left alone; it ends by itself after its orphan grace.
#pragma once

#include <string>

#include "supervisor/protocol/message.h"

namespace elastictrain::launcher {

// Writes down in its directory who this agent is: the run (by a hash of its key), the host's name, the agent's id and
// its process. Without that it can be taken for nobody's agent.
void write_identity(const std::string& directory, const protocol::AgentBootstrap& bootstrap);

// Kills the agents beside `own_directory` that serve the same run on the same host with a lower id, and with them (by
// their guardians) what they started. Returns how many there were.
int end_older_agents(const std::string& own_directory, const protocol::AgentBootstrap& bootstrap);

}  // namespace elastictrain::launcher

// Purpose: MASTER_ADDR and MASTER_PORT for programs that connect to each other themselves, as torch's do.
#pragma once

#include <cstdint>
#include <string>

#include "supervisor/agent_table.h"

namespace elastictrain {

// The numeric address of `first`'s host as the other hosts reach it; 127.0.0.1 if all agents are on this machine.
std::string master_address(const AgentTable& agents, AgentId first);

// A port that is free on this machine now; 0 if there is none.
std::uint16_t find_free_port();

}  // namespace elastictrain

// Purpose: the facts about this host: name, cores, memory, GPUs, clock, and the addresses of its data plane.
// Thread: any; reads the system. Errors: an interface that does not exist, by name.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

std::string host_name();
// Processors that this process may use: a container, a batch system or taskset may leave it fewer than there are.
std::uint32_t usable_cores();
// All except the network and what requires a vendor's library.
protocol::HostFacts host_facts();

// The name of the interface that has this numeric address; empty if none has it.
std::string interface_of(const std::string& address);

// The numeric addresses of an interface, IPv4 first; an error lists the interfaces that exist.
Result<std::vector<std::string>> interface_addresses(const std::string& interface);

}  // namespace elastictrain::launcher

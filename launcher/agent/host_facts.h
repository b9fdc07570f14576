// Purpose: what this host is: name, cores, memory, GPUs, clock, and the addresses of its data plane.
// Thread: any; reads the system. Failure: an interface that is not there, by name.
#pragma once

#include <string>
#include <vector>

#include "supervisor/protocol/message.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

std::string host_name();
// All but the network and what needs a vendor's library.
protocol::HostFacts host_facts();

// The name of the interface that has this numeric address; empty where none has it.
std::string interface_of(const std::string& address);

// The numeric addresses of an interface, IPv4 first; an error names the interfaces that there are.
Result<std::vector<std::string>> interface_addresses(const std::string& interface);

}  // namespace elastictrain::launcher

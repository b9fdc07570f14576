// Purpose: the numeric addresses of this machine. Errors: the interface does not exist or has no address.
#pragma once

#include <string>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

// IPv4 before IPv6; without loopback and link-local ones. `interface` empty: of all interfaces that are up.
Result<std::vector<std::string>> machine_addresses(const std::string& interface);

// Every address of this machine, loopback included.
std::vector<std::string> all_addresses();

}  // namespace elastictrain::cli

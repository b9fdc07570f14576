// Purpose: checks names of hosts, wherever they come from: a host file, a lease, a command that offers its host. A name
// becomes a word of a command line (ssh, kubectl, srun), so none can be an option or hold what a shell reads. Pure.
#pragma once

#include <string_view>

namespace elastictrain::protocol {

// Letters, digits and `.-_:%`, not starting with `-`, at most 253 bytes: the names that ssh and the resolver accept.
bool is_host_name(std::string_view name);

}  // namespace elastictrain::protocol

// Purpose: the key by which agents of one machine recognize that their workers may share memory: equal if boot, network
// namespace (abstract sockets reach no further) and user are the same.
#pragma once

#include <string>

namespace elastictrain::launcher {

// Empty if the machine does not provide them.
std::string machine_key();

}  // namespace elastictrain::launcher

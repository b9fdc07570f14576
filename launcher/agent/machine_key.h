// Purpose: what tells agents of one machine that their workers may share memory: equal where boot, network namespace
// (abstract sockets reach no further) and user are the same.
#pragma once

#include <string>

namespace elastictrain::launcher {

// Empty where the machine does not say.
std::string machine_key();

}  // namespace elastictrain::launcher

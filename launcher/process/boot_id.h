// Purpose: tells the starts of this machine apart.
// Thread: any one.
#pragma once

#include <string>

namespace elastictrain::launcher {

// Another one after each start of the machine; empty if it cannot be read.
std::string boot_id();

}  // namespace elastictrain::launcher

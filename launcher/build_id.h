// Purpose: which build this is, so that a host's binary can be compared with ours without copying it.
// Thread: any; computed once. Failure: none (a binary without a linker's note is hashed as a file).
#pragma once

#include <string>

namespace elastictrain::launcher {

// "<version>-<16 hex digits>": equal exactly where the same build runs. `elastictrain --build-id` prints it.
std::string build_id();

// Absolute path of the running binary; empty if the system does not tell.
std::string self_path();

}  // namespace elastictrain::launcher

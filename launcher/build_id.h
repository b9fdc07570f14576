// Purpose: identifies this build, so that a host's binary can be compared with ours without copying it.
// Thread: any; computed once. Errors: none (a binary without a linker's note is hashed as a file).
#pragma once

#include <string>

namespace elastictrain::launcher {

// "<version>-<16 hex digits>": equal if and only if the build is the same. `elastictrain --build-id` prints it.
std::string build_id();

// Absolute path of the running binary; empty if the system does not report it.
std::string self_path();

}  // namespace elastictrain::launcher

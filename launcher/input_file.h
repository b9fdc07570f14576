// Purpose: reads a file that a user named, whatever it is: never more than a limit, never for longer than a deadline,
// so that a device, a pipe without a writer or a huge file is an error instead of a hang or an exhausted memory.
//
// Thread: any; it blocks for at most the deadline, except where a file system that is not reachable holds the call up.
// Errors: kNoInput, "PATH: cannot be read: why".
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "supervisor/protocol/result.h"

namespace elastictrain::launcher {

inline constexpr std::size_t kMaxInputBytes = 64u << 20;
inline constexpr std::chrono::milliseconds kInputDeadline{10'000};

Result<std::string> read_input_file(const std::string& path, std::size_t max_bytes = kMaxInputBytes,
                                    std::chrono::milliseconds deadline = kInputDeadline);

}  // namespace elastictrain::launcher

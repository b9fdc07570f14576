// Purpose: determines which GPUs and vendors' libraries this host offers to a worker, in a short-lived process: a
// process that has initialized CUDA must not start workers, and a library that crashes or hangs must not affect the
// agent.
//
// Ownership: the process belongs to the call and ends by its deadline. Thread: the io_context's thread. Errors: in
// AcceleratorFacts::problem; `done` is always called, once.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/protocol/agent_messages.h"

namespace elastictrain::launcher {

// The subcommand of this binary that prints accelerator_line().
inline constexpr char kAcceleratorsCommand[] = "accelerators";

// `environment` ("NAME=value") is added to our own.
void probe_accelerators(asio::io_context& io, const std::string& binary, std::vector<std::string> environment,
                        std::chrono::milliseconds time_limit, std::function<void(protocol::AcceleratorFacts)> done);

// The marker that distinguishes the result from other output of the libraries, and the data after it.
std::string accelerator_line(const protocol::AcceleratorFacts& facts);
std::optional<protocol::AcceleratorFacts> parse_accelerator_line(std::string_view line);

}  // namespace elastictrain::launcher

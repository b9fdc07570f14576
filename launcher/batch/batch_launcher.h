// Purpose: creates the launcher that starts agents by the batch system's own tool.
//
// Results arrive on the io_context's thread through the sink, exactly one LaunchEnded per launch(), in all cases.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "launcher/agent_program.h"
#include "launcher/batch/allocation.h"
#include "launcher/launcher.h"

namespace elastictrain::launcher {

struct BatchLaunchOptions {
  std::uint32_t parallelism = 32;
  std::uint64_t start_timeout_ms = 30'000;
  // The other job that a host belongs to; empty: the allocation's own.
  std::function<std::string(const std::string& host)> job_of = [](const std::string&) { return std::string(); };
};

// For hosts of `allocation`, if its batch system has such a tool; the binary is at the same path on all of them.
Result<std::unique_ptr<Launcher>> make_batch_launcher(asio::io_context& io, const Allocation& allocation,
                                                      BatchLaunchOptions options, LaunchSink sink,
                                                      AgentProgram program = this_program());

}  // namespace elastictrain::launcher

// Purpose: creates the launcher that starts agents on this machine by fork and exec.
//
// Results arrive on the io_context's thread through the sink, exactly one LaunchEnded per launch(), in all cases.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>

#include "launcher/agent_program.h"
#include "launcher/launcher.h"

namespace elastictrain::launcher {

// `start_timeout_ms`: until the agent is connected to the supervisor.
std::unique_ptr<Launcher> make_local_launcher(asio::io_context& io, LaunchSink sink,
                                              AgentProgram program = this_program(),
                                              std::uint64_t start_timeout_ms = 30'000);

}  // namespace elastictrain::launcher

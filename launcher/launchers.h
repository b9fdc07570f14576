// Purpose: makes the launchers. Results arrive on the io_context's thread through the sink, exactly one LaunchEnded per
// launch(), whatever happens.
#pragma once

#include <asio.hpp>
#include <memory>

#include "launcher/launcher.h"
#include "launcher/ssh_command.h"

namespace elastictrain::launcher {

// The running binary; what the launchers below start unless they are told otherwise.
AgentProgram this_program();

// Fork and exec on this machine. `start_timeout_ms`: until the agent is connected to the supervisor.
std::unique_ptr<Launcher> make_local_launcher(asio::io_context& io, LaunchSink sink,
                                              AgentProgram program = this_program(),
                                              std::uint64_t start_timeout_ms = 30'000);

// The system's own ssh, with the user's configuration, agents and jump hosts.
Result<std::unique_ptr<Launcher>> make_ssh_launcher(asio::io_context& io, SshOptions options, LaunchSink sink,
                                                    AgentProgram program = this_program());

}  // namespace elastictrain::launcher

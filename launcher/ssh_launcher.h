// Purpose: creates the launcher that starts agents by the system's own ssh, with the user's configuration, agents and
// jump hosts.
//
// Results arrive on the io_context's thread through the sink, exactly one LaunchEnded per launch(), in all cases.
#pragma once

#include <asio/io_context.hpp>
#include <memory>

#include "launcher/agent_program.h"
#include "launcher/launcher.h"
#include "launcher/ssh_command.h"

namespace elastictrain::launcher {

Result<std::unique_ptr<Launcher>> make_ssh_launcher(asio::io_context& io, SshOptions options, LaunchSink sink,
                                                    AgentProgram program = this_program());

}  // namespace elastictrain::launcher

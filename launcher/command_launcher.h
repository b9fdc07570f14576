// Purpose: creates the launcher that starts agents by a command of the user that runs a program on a host, such as
// `kubectl exec -i {host} --`. What follows are words of its own: the command passes them on as they are, with standard
// input, output and errors, and without a terminal.
//
// Results arrive on the io_context's thread through the sink, exactly one LaunchEnded per launch(), in all cases.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agent_program.h"
#include "launcher/launcher.h"

namespace elastictrain::launcher {

struct CommandLaunchOptions {
  std::vector<std::string> command;  // "{host}" stands for the host's name, anywhere in a word
  std::uint32_t parallelism = 32;
  std::uint64_t start_timeout_ms = 30'000;  // until the agent is connected to the supervisor
  std::uint64_t copy_timeout_ms = 120'000;
  bool copy_binary = true;
};

// The words of `command` for a host.
std::vector<std::string> command_for(const std::vector<std::string>& command, const std::string& host);

Result<std::unique_ptr<Launcher>> make_command_launcher(asio::io_context& io, CommandLaunchOptions options,
                                                        LaunchSink sink, AgentProgram program = this_program());

}  // namespace elastictrain::launcher

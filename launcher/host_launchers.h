// Purpose: creates the launchers that reach one host by one command: fork and exec on this machine, ssh, and a
// command of the user. Each is a launch method for process_launcher.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agent_program.h"
#include "launcher/launcher.h"
#include "launcher/remote_commands.h"

// Creates the launcher that starts agents on this machine by fork and exec.
//
// Results arrive on the io_context's thread through the sink, exactly one LaunchEnded per launch(), in all cases.

namespace elastictrain::launcher {

// `start_timeout_ms`: until the agent is connected to the supervisor.
std::unique_ptr<Launcher> make_local_launcher(asio::io_context& io, LaunchSink sink,
                                              AgentProgram program = this_program(),
                                              std::uint64_t start_timeout_ms = 30'000);

// Creates the launcher that starts agents by the system's own ssh, with the user's configuration, agents and
// jump hosts.
//
// Results arrive on the io_context's thread through the sink, exactly one LaunchEnded per launch(), in all cases.

Result<std::unique_ptr<Launcher>> make_ssh_launcher(asio::io_context& io, SshOptions options, LaunchSink sink,
                                                    AgentProgram program = this_program());

// Creates the launcher that starts agents by a command of the user that runs a program on a host, such as
// `kubectl exec -i {host} --`. What follows are words of its own: the command passes them on as they are, with standard
// input, output and errors, and without a terminal.
//
// Results arrive on the io_context's thread through the sink, exactly one LaunchEnded per launch(), in all cases.

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

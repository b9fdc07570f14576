// Purpose: creates the launchers. Results arrive on the io_context's thread through the sink, exactly one LaunchEnded
// per launch(), in all cases.
#pragma once

#include <asio/io_context.hpp>
#include <functional>
#include <memory>

#include "launcher/batch/allocation.h"
#include "launcher/launcher.h"
#include "launcher/ssh_command.h"

namespace elastictrain::launcher {

// The running binary, which the launchers below start by default.
AgentProgram this_program();

// Fork and exec on this machine. `start_timeout_ms`: until the agent is connected to the supervisor.
std::unique_ptr<Launcher> make_local_launcher(asio::io_context& io, LaunchSink sink,
                                              AgentProgram program = this_program(),
                                              std::uint64_t start_timeout_ms = 30'000);

// The system's own ssh, with the user's configuration, agents and jump hosts.
Result<std::unique_ptr<Launcher>> make_ssh_launcher(asio::io_context& io, SshOptions options, LaunchSink sink,
                                                    AgentProgram program = this_program());

// The batch system's own tool for hosts of `allocation`, if there is one; the binary is at the same path on all of
// them.
struct BatchLaunchOptions {
  std::uint32_t parallelism = 32;
  std::uint64_t start_timeout_ms = 30'000;
  // The other job that a host belongs to; empty: the allocation's own.
  std::function<std::string(const std::string& host)> job_of = [](const std::string&) { return std::string(); };
};
Result<std::unique_ptr<Launcher>> make_batch_launcher(asio::io_context& io, const Allocation& allocation,
                                                      BatchLaunchOptions options, LaunchSink sink,
                                                      AgentProgram program = this_program());

}  // namespace elastictrain::launcher

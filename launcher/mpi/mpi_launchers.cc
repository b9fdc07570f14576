#include "launcher/mpi/mpi_launchers.h"

#include <asio/io_context.hpp>

#include "launcher/process_launcher.h"

namespace elastictrain::launcher {

std::unique_ptr<Launcher> make_mpi_launcher(asio::io_context& io, const MpiLaunchOptions& options, LaunchSink sink,
                                            const AgentProgram& program) {
  LaunchMethod method;
  method.capabilities = {options.tool.command.front(), true, false};
  method.parallelism = options.parallelism;
  method.start_timeout = std::chrono::milliseconds(options.start_timeout_ms);
  // It mixes its own exit statuses with the agent's.
  method.passes_status_on = false;
  method.error_summary = first_lines;
  method.timeout_hint = "is the host up, and does `" + options.tool.command.front() + "` reach it by hand?";
  method.start_command = [tool = options.tool, around = options.around, path = program.path](const std::string& host) {
    return mpi_start_command(tool, around, host, {path, "agent", "--outlive-launch"});
  };
  return std::make_unique<ProcessLauncher>(io, std::move(method), std::move(sink));
}

}  // namespace elastictrain::launcher

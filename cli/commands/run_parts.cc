#include "cli/commands/run_parts.h"

#include <utility>

#include "cli/commands/mixed_launcher.h"
#include "launcher/host_sources.h"
#include "launcher/launchers.h"

namespace elastictrain::cli {

Result<std::unique_ptr<launcher::Launcher>> make_launcher(asio::io_context& io, const RunConfig& config,
                                                          const RunPlan& plan, launcher::LaunchSink sink) {
  if (plan.all_local) return launcher::make_local_launcher(io, std::move(sink));
  auto ssh = launcher::make_ssh_launcher(io, ssh_options(config.launcher), sink);
  if (!ssh.ok() || config.launcher.kind == LauncherKind::kSsh) return ssh;
  auto here = launcher::make_local_launcher(io, std::move(sink));
  return std::unique_ptr<launcher::Launcher>(std::make_unique<MixedLauncher>(std::move(here), std::move(*ssh)));
}

std::unique_ptr<launcher::HostSource> make_host_source(asio::io_context& io, const RunConfig& config,
                                                       const RunPlan& plan) {
  const HostsConfig& hosts = config.hosts;
  if (!hosts.discover.empty()) {
    return launcher::discovery_source(
        io, {.argv = launcher::shell_command(hosts.discover), .interval_ms = hosts.discover_interval_ms});
  }
  if (!hosts.file.empty()) return launcher::hostfile_source(io, hosts.file, hosts.discover_interval_ms);
  return launcher::static_hosts(io, plan.hosts);
}

}  // namespace elastictrain::cli

#include "cli/commands/run_parts.h"

#include <utility>

#include "cli/commands/mixed_launcher.h"
#include "cli/commands/mpi_plan.h"
#include "launcher/batch/batch_launcher.h"
#include "launcher/command_launcher.h"
#include "launcher/host_sources.h"
#include "launcher/local_launcher.h"
#include "launcher/ssh_launcher.h"

namespace elastictrain::cli {

namespace {

using Made = Result<std::unique_ptr<launcher::Launcher>>;

Made make_batch(asio::io_context& io, const RunConfig& config, const launcher::Allocation& allocation,
                launcher::LaunchSink sink, JobOfHost job_of) {
  launcher::BatchLaunchOptions options;
  options.job_of = std::move(job_of);
  options.parallelism = static_cast<std::uint32_t>(config.launcher.parallelism);
  return launcher::make_batch_launcher(io, allocation, options, std::move(sink));
}

// Hosts that no other launcher is in charge of.
Made make_for_others(asio::io_context& io, const RunConfig& config, const launcher::LaunchSink& sink) {
  if (config.launcher.kind == LauncherKind::kCommand) {
    return launcher::make_command_launcher(io, command_options(config.launcher), sink);
  }
  return launcher::make_ssh_launcher(io, ssh_options(config.launcher), sink);
}

std::unique_ptr<launcher::Launcher> make_meeting(asio::io_context& io, const launcher::LaunchSink& sink,
                                                 launcher::Rendezvous& rendezvous) {
  std::vector<MixedLauncher::Way> ways;
  ways.push_back(
      {[&rendezvous](const std::string& host) { return rendezvous.serves(host); }, rendezvous.launcher(sink)});
  ways.push_back({[](const std::string&) { return true; }, launcher::make_local_launcher(io, sink)});
  return std::make_unique<MixedLauncher>(std::move(ways));
}

}  // namespace

Made make_launcher(asio::io_context& io, const RunConfig& config, const RunPlan& plan, launcher::LaunchSink sink,
                   JobOfHost job_of, launcher::Rendezvous* rendezvous) {
  if (plan.mpi_tool) return make_mpi(io, config, plan, std::move(sink));
  if (rendezvous != nullptr) return make_meeting(io, sink, *rendezvous);
  if (plan.all_local) return launcher::make_local_launcher(io, sink);
  auto others = make_for_others(io, config, sink);
  if (!others.ok() || config.launcher.kind == LauncherKind::kSsh) return others;
  std::vector<MixedLauncher::Way> ways;
  ways.push_back(
      {[plan](const std::string& host) { return is_here(plan, host); }, launcher::make_local_launcher(io, sink)});
  if (uses_batch_tool(config, plan)) {
    auto batch = make_batch(io, config, *plan.allocation, sink, job_of);
    if (!batch.ok()) return batch;
    ways.push_back(
        {[plan, job_of](const std::string& host) { return is_allocated(plan, host) || !job_of(host).empty(); },
         std::move(*batch)});
  }
  ways.push_back({[](const std::string&) { return true; }, std::move(*others)});
  return std::unique_ptr<launcher::Launcher>(std::make_unique<MixedLauncher>(std::move(ways)));
}

std::unique_ptr<launcher::HostSource> make_host_source(asio::io_context& io, const RunConfig& config,
                                                       const RunPlan& plan) {
  const HostsConfig& hosts = config.hosts;
  if (!hosts.discover.empty()) {
    return launcher::discovery_source(
        io, {.argv = launcher::shell_command(hosts.discover), .interval_ms = hosts.discover_interval_ms});
  }
  if (!hosts.file.empty() && plan.mpi_hosts.empty())
    return launcher::hostfile_source(io, hosts.file, hosts.discover_interval_ms);
  return launcher::static_hosts(io, plan.hosts);
}

}  // namespace elastictrain::cli

#include "cli/commands/mpi_plan.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

#include "cli/commands/dry_run.h"
#include "launcher/mpi/mpi_launchers.h"
#include "launcher/mpi/place.h"
#include "supervisor/run_directory.h"

namespace elastictrain::cli {
namespace {

launcher::MpiSurroundings surroundings_of(const RunPlan& plan) {
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const bool shares = std::any_of(plan.mpi_hosts.begin(), plan.mpi_hosts.end(), [&](const launcher::Host& host) {
    return is_here(plan, host.name) && host.slots > cores;
  });
  return {::geteuid() == 0, shares};
}

}  // namespace

bool is_mpi_pool(const RunConfig& config) {
  return config.launcher.kind == LauncherKind::kMpi && config.network.backend == BackendChoice::kMpi;
}

Status check_outside_mpi(const std::vector<std::pair<std::string, std::string>>& surroundings) {
  std::vector<std::string> environment;
  for (const auto& [name, value] : surroundings) environment.push_back(name + "=" + value);
  if (!launcher::is_one_of_many(environment)) return {};
  return Error{ErrorCode::kInvalid,
               "this is one of several processes of an MPI launch: do not start elastictrain under mpirun or with more "
               "than one task of srun; start it once, it calls mpirun itself: --launcher mpi --backend mpi"};
}

Status settle_mpi(const RunConfig& config, RunPlan& plan) {
  if (config.launcher.kind != LauncherKind::kMpi) return {};
  auto tool = launcher::ask_mpi_tool(config.launcher.mpi_command);
  if (!tool.ok()) return tool.error();
  plan.mpi_tool = std::move(*tool);
  if (!is_mpi_pool(config)) return {};
  plan.mpi_hosts = std::move(plan.hosts);
  plan.hosts = launcher::pool_ranks(plan.mpi_hosts);
  return {};
}

Result<std::unique_ptr<launcher::Launcher>> make_mpi(asio::io_context& io, const RunConfig& config, const RunPlan& plan,
                                                     launcher::LaunchSink sink) {
  const auto around = surroundings_of(plan);
  if (plan.mpi_hosts.empty()) {
    const auto parallelism = static_cast<std::uint32_t>(config.launcher.parallelism);
    return launcher::make_mpi_launcher(io, {*plan.mpi_tool, around, parallelism}, std::move(sink));
  }
  auto directory = state_directory();
  if (!directory.ok()) return directory.error();
  return launcher::make_mpi_pool(io, {*plan.mpi_tool, around, plan.mpi_hosts, std::move(*directory)}, std::move(sink));
}

std::string describe_mpi(const RunPlan& plan, const launcher::Launcher& launcher) {
  if (!plan.mpi_tool) return {};
  if (plan.mpi_hosts.empty()) return "agents by " + plan.mpi_tool->version + "\n";
  std::string machines;
  for (const launcher::Host& host : plan.mpi_hosts) {
    machines += (machines.empty() ? "" : ",") + host.name + ":" + std::to_string(host.slots);
  }
  return "MPI pool of " + std::to_string(plan.hosts.size()) + " ranks on " + machines + " by " +
         plan.mpi_tool->version + ": " + launcher::lost_rank_text(plan.mpi_tool->kind) + "\n  " +
         shell_words(launcher.command_line(plan.hosts.front().name)) + "\n";
}

}  // namespace elastictrain::cli

#include "cli/commands/mpi_plan.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cli/output/shell_text.h"
#include "launcher/agent/host_facts.h"
#include "launcher/mpi/mpi_launchers.h"
#include "launcher/mpi/place.h"
#include "supervisor/core/pure/text.h"
#include "supervisor/run_directory.h"

namespace elastictrain::cli {
namespace {

// The supervisor gives an agent up after connect_timeout_ms without output of the tool.
std::uint64_t tool_time_ms(const RunConfig& config) {
  return config.launcher.connect_timeout_ms * 3 / 4;
}

// The user has already chosen a way, or a batch system reaches the hosts.
bool reaches_hosts_by_itself(const RunPlan& plan) {
  constexpr const char* kChoices[] = {"OMPI_MCA_plm",    "OMPI_MCA_plm_rsh_agent", "HYDRA_LAUNCHER",
                                      "HYDRA_BOOTSTRAP", "HYDRA_LAUNCHER_EXEC",    "HYDRA_LAUNCHER_EXTRA_ARGS"};
  return plan.all_local || plan.allocation ||
         std::any_of(std::begin(kChoices), std::end(kChoices), [](const char* name) { return std::getenv(name); });
}

launcher::SshOptions impatient_ssh(const RunConfig& config) {
  launcher::SshOptions options = ssh_options(config.launcher);
  options.connect_timeout_ms = tool_time_ms(config) / 2;
  return options;
}

std::vector<std::string> remote_shell(const RunConfig& config, const RunPlan& plan) {
  return reaches_hosts_by_itself(plan) ? std::vector<std::string>() : launcher::ssh_arguments(impatient_ssh(config));
}

std::vector<std::string> does_it_answer(const RunConfig& config, const RunPlan& plan, const std::string& machine) {
  if (reaches_hosts_by_itself(plan) || is_here(plan, machine)) return {};
  std::vector<std::string> words = launcher::ssh_prefix(impatient_ssh(config), machine);
  words.push_back("true");
  return words;
}

// Empty if it is uncertain which address other hosts can reach: MPI then uses the machine's name.
std::string own_address(const RunConfig& config, const RunPlan& plan) {
  const auto& known = plan.advertise_addresses;
  if (plan.all_local) return {};
  const bool chosen = !config.network.advertise.empty() || !config.network.interface.empty();
  const auto is_ipv4 = [](const std::string& address) { return address.find(':') == std::string::npos; };
  const bool sure = chosen || std::count_if(known.begin(), known.end(), is_ipv4) == 1;
  return sure ? known.front() : std::string();
}

launcher::MpiSurroundings surroundings_of(const RunConfig& config, const RunPlan& plan) {
  const std::uint32_t cores = launcher::usable_cores();
  const bool shares = std::any_of(plan.mpi_hosts.begin(), plan.mpi_hosts.end(), [&](const launcher::Host& host) {
    return is_here(plan, host.name) && host.slots > cores;
  });
  return {::geteuid() == 0, shares, remote_shell(config, plan), own_address(config, plan), config.network.interface};
}

// MPI's commands receive the ssh arguments as one text and split it at blanks.
Status check_remote_shell(const RunConfig& config) {
  for (const std::string& word : launcher::ssh_arguments(ssh_options(config.launcher))) {
    if (word.find(' ') == std::string::npos) continue;
    return Error{ErrorCode::kInvalid, "launcher.kind = \"mpi\": \"" + word +
                                          "\" cannot be passed to ssh, because MPI's commands split it at the "
                                          "blank: put it into ~/.ssh/config"};
  }
  return {};
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
               "than one task of srun; start it once with --launcher mpi --backend mpi, and it calls mpirun itself"};
}

Status settle_mpi(const RunConfig& config, RunPlan& plan) {
  if (config.launcher.kind != LauncherKind::kMpi) return {};
  if (const Status good = check_remote_shell(config); !good.ok()) return good.error();
  auto tool = launcher::ask_mpi_tool(config.launcher.mpi_command);
  if (!tool.ok()) return tool.error();
  plan.mpi_tool = std::move(*tool);
  if (!is_mpi_pool(config)) return {};
  plan.mpi_hosts = std::move(plan.hosts);
  // Open MPI places its first ranks on the machine where it runs, wherever that machine is in the list.
  std::stable_partition(plan.mpi_hosts.begin(), plan.mpi_hosts.end(),
                        [&plan](const launcher::Host& host) { return is_here(plan, host.name); });
  // Slurm orders hosts by its own rules.
  const bool machines_are_known = plan.mpi_tool->kind != launcher::MpiKind::kSrun;
  plan.hosts = launcher::pool_ranks(plan.mpi_hosts, machines_are_known);
  return {};
}

Result<std::unique_ptr<launcher::Launcher>> make_mpi(asio::io_context& io, const RunConfig& config, const RunPlan& plan,
                                                     launcher::LaunchSink sink) {
  const auto around = surroundings_of(config, plan);
  if (plan.mpi_hosts.empty()) {
    const auto parallelism = static_cast<std::uint32_t>(config.launcher.parallelism);
    return launcher::make_mpi_launcher(io, {*plan.mpi_tool, around, parallelism, tool_time_ms(config)},
                                       std::move(sink));
  }
  auto directory = state_directory();
  if (!directory.ok()) return directory.error();
  return launcher::make_mpi_pool(
      io,
      {*plan.mpi_tool, around, plan.mpi_hosts, plan.hosts, std::move(*directory), tool_time_ms(config),
       [config, plan](const std::string& machine) { return does_it_answer(config, plan, machine); }},
      std::move(sink));
}

std::string describe_mpi(const RunPlan& plan, const launcher::Launcher& launcher) {
  if (!plan.mpi_tool) return {};
  if (plan.mpi_hosts.empty()) return "agents by " + plan.mpi_tool->version + "\n";
  std::string machines;
  for (const launcher::Host& host : plan.mpi_hosts) {
    machines += (machines.empty() ? "" : ",") + host.name + ":" + std::to_string(host.slots);
  }
  return "MPI pool of " + core::counted(plan.hosts.size(), "rank") + " on " + machines + " by " +
         plan.mpi_tool->version + ": " + launcher::lost_rank_text(plan.mpi_tool->kind) + "\n  " +
         shell_text(launcher.command_line(plan.hosts.front().name)) + "\n";
}

}  // namespace elastictrain::cli

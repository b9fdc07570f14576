#include "cli/commands/run/launchers.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "cli/output/printable.h"
#include "launcher/agent/host_facts.h"
#include "launcher/batch/batch_launcher.h"
#include "launcher/host_launchers.h"
#include "launcher/host_sources.h"
#include "launcher/mpi/mpi_launchers.h"
#include "launcher/mpi/mpi_rank.h"
#include "supervisor/core/pure/message_text.h"
#include "supervisor/run_directory.h"

namespace elastictrain::cli {

launcher::Capabilities MixedLauncher::capabilities() const {
  launcher::Capabilities all = ways_.back().launcher->capabilities();
  std::string names;
  for (const Way& way : ways_) names += (names.empty() ? "" : " and ") + way.launcher->capabilities().name;
  all.name = names;
  return all;
}

launcher::Launcher& MixedLauncher::in_charge_of(const std::string& host) const {
  for (const Way& way : ways_) {
    if (way.serves(host)) return *way.launcher;
  }
  return *ways_.back().launcher;
}

void MixedLauncher::launch(launcher::AgentSpec spec) {
  Launcher& launcher = in_charge_of(spec.host);
  owners_[spec.agent] = &launcher;
  launcher.launch(std::move(spec));
}

void MixedLauncher::forget(AgentId agent) {
  const auto owner = owners_.find(agent);
  if (owner == owners_.end()) return;
  owner->second->forget(agent);
  owners_.erase(owner);
}

std::vector<std::string> MixedLauncher::command_line(const std::string& host) const {
  return in_charge_of(host).command_line(host);
}

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

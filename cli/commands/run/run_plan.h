// Purpose: turns a checked configuration into what a run needs: sizes, program, environment, hosts, addresses. Shared
// by `run`, `run --dry-run` and `check`.
//
// make_plan() reads the host file, the environment file and the machine's addresses, and asks MPI's command for its
// kind and version; everything else is pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/config/run_config.h"
#include "launcher/batch/allocation.h"
#include "launcher/host_launchers.h"
#include "launcher/host_source.h"
#include "launcher/mpi/mpi_tool.h"
#include "launcher/remote_commands.h"
#include "supervisor/core/pure/settings.h"
#include "supervisor/policy/runner_settings.h"
#include "supervisor/worker_program.h"

namespace elastictrain::cli {

struct RunPlan {
  core::RunSettings settings;
  policy::RunnerSettings policy;
  WorkerProgram program;
  std::vector<launcher::Host> hosts;               // known before the start; empty with hosts.discover
  std::vector<launcher::Host> worker_hosts;        // `hosts`, in groups where each worker lies on several
  std::vector<launcher::Host> mpi_hosts;           // with an MPI pool: its machines; `hosts` are then its ranks
  std::optional<launcher::MpiTool> mpi_tool;       // with launcher.kind = "mpi"
  bool all_local = true;                           // no host is on another machine
  std::optional<launcher::Allocation> allocation;  // of the batch job that this process runs in
  bool usr1_drains = false;                        // USR1 is a notice to stop
  std::vector<std::string> preload;                // Python modules that each host imports once, for all workers
  std::vector<std::string> listen_addresses;
  std::vector<std::string> advertise_addresses;
};

struct PlanInputs {
  std::vector<std::pair<std::string, std::string>> environment;
  std::string current_directory;
  std::string default_name;
  // The environment of this process, also if it resumes a run that was started elsewhere: batch systems describe the
  // allocation in it.
  std::vector<std::pair<std::string, std::string>> surroundings = {};
};

// For PlanInputs. An error if it was removed: a relative path would mean nothing, and a program on another host would
// start in its home directory.
Result<std::string> current_directory();

Result<RunPlan> make_plan(const RunConfig& config, const PlanInputs& inputs);
// An empty host file is a mistake where a run begins; a run that is taken over may have lost all its hosts.
Status names_hosts_in_file(const RunConfig& config, const RunPlan& plan);

// Sizes from the user's settings and the available slots. Without any setting: as many workers as slots.
struct Sizes {
  std::uint32_t min = 1;
  std::uint32_t start = 1;
  std::uint32_t max = 1;
};
Sizes settle_sizes(const WorkersConfig& workers, std::uint64_t slots, bool sizes_given);

launcher::SshOptions ssh_options(const LauncherConfig& config);
launcher::CommandLaunchOptions command_options(const LauncherConfig& config);

// Whether the name refers to this machine.
bool is_this_host(const std::string& name);

// The same, also for the name that the batch system uses for it.
bool is_here(const RunPlan& plan, const std::string& name);

// Whether the host belongs to the batch job.
bool is_allocated(const RunPlan& plan, const std::string& name);

// Whether the batch system's own tool starts agents on allocated hosts.
bool uses_batch_tool(const RunConfig& config, const RunPlan& plan);

// "job 42 of slurm: 3 hosts with 6 slots (SLURM_TASKS_PER_NODE), agents by srun"
std::string describe_allocation(const RunConfig& config, const RunPlan& plan);

// Whether workers get this variable of our own environment.
bool is_passed(const EnvironmentConfig& environment, const std::string& name);

// NAME=value for every worker: variables passed on, from the file and from settings, and those that our worker library
// reads.
Result<std::vector<std::string>> user_environment(const RunConfig& config,
                                                  const std::vector<std::pair<std::string, std::string>>& ours);

}  // namespace elastictrain::cli

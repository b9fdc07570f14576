// Purpose: from a checked configuration to what a run needs: sizes, program, environment, hosts, addresses. Shared by
// `run`, `run --dry-run` and `check`.
//
// make_plan() reads the host file, the environment file and the machine's addresses, and asks MPI's command which one
// it is; everything else is pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/config/run_config.h"
#include "launcher/batch/allocation.h"
#include "launcher/host_source.h"
#include "launcher/launcher.h"
#include "launcher/mpi/mpi_tool.h"
#include "supervisor/supervisor.h"

namespace elastictrain::cli {

struct RunPlan {
  core::RunSettings settings;
  policy::RunnerSettings policy;
  WorkerProgram program;
  std::vector<launcher::Host> hosts;               // known before the start; empty with hosts.discover
  std::vector<launcher::Host> mpi_hosts;           // with an MPI pool: its machines; `hosts` are its ranks
  std::optional<launcher::MpiTool> mpi_tool;       // with launcher.kind = "mpi"
  bool all_local = true;                           // no host that needs another machine
  std::optional<launcher::Allocation> allocation;  // of the batch job that this process runs in
  bool usr1_drains = false;                        // USR1 is a notice to leave
  std::vector<std::string> listen_addresses;
  std::vector<std::string> advertise_addresses;
};

struct PlanInputs {
  std::vector<std::pair<std::string, std::string>> environment;
  std::string current_directory;
  std::string default_name;
  // Of this process, also where a run is resumed that was started elsewhere: a batch system says in it what there is.
  std::vector<std::pair<std::string, std::string>> surroundings = {};
};

Result<RunPlan> make_plan(const RunConfig& config, const PlanInputs& inputs);

// Sizes from what the user said and the slots there are: without a word about sizes, as many workers as slots.
struct Sizes {
  std::uint32_t min = 1;
  std::uint32_t start = 1;
  std::uint32_t max = 1;
};
Sizes settle_sizes(const WorkersConfig& workers, std::uint64_t slots, bool sizes_given);

launcher::SshOptions ssh_options(const LauncherConfig& config);

// Whether the name means this machine.
bool is_this_host(const std::string& name);

// The same, also by the batch system's name for it.
bool is_here(const RunPlan& plan, const std::string& name);

// Whether the host belongs to the batch job.
bool is_allocated(const RunPlan& plan, const std::string& name);

// Whether agents on allocated hosts are started by the batch system's own tool.
bool uses_batch_tool(const RunConfig& config, const RunPlan& plan);

// "job 42 of slurm: 3 hosts with 6 slots (SLURM_TASKS_PER_NODE), agents by srun"
std::string describe_allocation(const RunConfig& config, const RunPlan& plan);

// Whether workers get this variable of ours.
bool is_passed(const EnvironmentConfig& environment, const std::string& name);

// NAME=value for every worker: passed on, from the file, set one by one, and what our worker library reads.
Result<std::vector<std::string>> user_environment(const RunConfig& config,
                                                  const std::vector<std::pair<std::string, std::string>>& ours);

}  // namespace elastictrain::cli

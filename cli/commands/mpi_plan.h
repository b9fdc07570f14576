// Purpose: a run's use of MPI: agents started by its command, one per host or, where MPI carries the sums, one per rank
// of a pool; and the text that describes it to users.
//
// settle_mpi() asks MPI's command for its version. Thread: any. Errors: returned as values that say what to do.
#pragma once

#include <asio/io_context.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/run_plan.h"
#include "launcher/launcher.h"

namespace elastictrain::cli {

bool is_mpi_pool(const RunConfig& config);

// A run starts MPI itself. Under another mpirun each rank would start a run of its own.
Status check_outside_mpi(const std::vector<std::pair<std::string, std::string>>& surroundings);

// Replaces plan.hosts by a pool's ranks. Does nothing without launcher.kind = "mpi".
Status settle_mpi(const RunConfig& config, RunPlan& plan);

// Requires a plan with an mpi_tool.
Result<std::unique_ptr<launcher::Launcher>> make_mpi(asio::io_context& io, const RunConfig& config, const RunPlan& plan,
                                                     launcher::LaunchSink sink);

// Text for users: the MPI in use and, for a pool, its command and the effect of losing a worker. Empty without MPI.
std::string describe_mpi(const RunPlan& plan, const launcher::Launcher& launcher);

}  // namespace elastictrain::cli

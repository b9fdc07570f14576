// Purpose: what a run does with MPI: agents by its command, one per host or, where MPI carries the sums, one per rank
// of a pool; and what people are told about it.
//
// settle_mpi() asks MPI's command for its version. Thread: any. Failure: values that say what to do.
#pragma once

#include <asio/io_context.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/run_plan.h"
#include "launcher/launcher.h"
#include "launcher/launchers.h"

namespace elastictrain::cli {

bool is_mpi_pool(const RunConfig& config);

// A run starts MPI itself; one for each rank of somebody else's mpirun would be as many runs.
Status check_outside_mpi(const std::vector<std::pair<std::string, std::string>>& surroundings);

// Puts a pool's ranks in the place of plan.hosts. Does nothing without launcher.kind = "mpi".
Status settle_mpi(const RunConfig& config, RunPlan& plan);

// Of a plan with an mpi_tool.
Result<std::unique_ptr<launcher::Launcher>> make_mpi(asio::io_context& io, const RunConfig& config, const RunPlan& plan,
                                                     launcher::LaunchSink sink);

// Lines for people: which MPI, and of a pool its command and what the loss of a worker means. Empty without MPI.
std::string describe_mpi(const RunPlan& plan, const launcher::Launcher& launcher);

}  // namespace elastictrain::cli

// Purpose: the connection of `run --cluster` to its cluster: what the run says about itself when it joins.
//
// Thread: the Asio loop's. Errors: returned as values that say what to do.
#pragma once

#include <asio/io_context.hpp>

#include <functional>
#include <memory>
#include <string>

#include "cli/commands/run/run_plan.h"
#include "cli/config/run_config.h"
#include "supervisor/cluster/run_link.h"
#include "supervisor/protocol/result.h"
#include "supervisor/run_record.h"

namespace elastictrain::cli {

struct ClusterLinkInputs {
  std::string directory;  // the run's
  RunStart start = RunStart::kFresh;
  std::function<std::uint64_t()> lease_seen;  // the newest version that the run knows
  cluster::RunLink::Say say;
};

// Borrows the configuration and the plan.
Result<std::unique_ptr<cluster::RunLink>> make_cluster_link(asio::io_context& io, const RunConfig& config,
                                                            const RunPlan& plan, ClusterLinkInputs inputs);

// That the job asks for: workers.max, or job.most_slots.
std::uint32_t most_slots(const JobConfig& job, const core::RunSettings& settings);

// In the run's directory, so that a supervisor that resumes the run is known to the cluster as the same job.
void keep_job(const std::string& directory, const std::string& job);

}  // namespace elastictrain::cli

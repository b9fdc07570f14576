// Purpose: a cluster and its jobs as text, from its answer to `queue`. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/output/table.h"

namespace elastictrain::cli {

// A line about the cluster, one about its helper jobs if it may have some, then one for each job; with `all` also for
// those that have ended.
std::string render_queue(const nlohmann::json& cluster, bool all, const Room& room = {});

// The line about the cluster, then its hosts with their slots, then the jobs that have not ended.
std::string render_cluster_status(const nlohmann::json& cluster, const Room& room = {});

}  // namespace elastictrain::cli

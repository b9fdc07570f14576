// Purpose: the jobs of a cluster that has run, from its journal, as a trace: "its jobs again, under any policy".
//
// Work is in samples: what a job had trained on when it ended. Its curve is what the cluster knew of it at its end,
// made by the code that the cluster's decisions use, up to the largest size that the job allows. Priorities, pauses,
// limits of users and hosts are not in a trace; `notes` says so where they mattered, and which jobs are left out. Pure.
// Errors: kInvalid if no job of it has ended with a sample, or if it is no journal of a cluster.
#pragma once

#include <string>

#include "cli/traces/formats.h"

namespace elastictrain::cli {

inline constexpr const char* kClusterFormat = "cluster";

bool looks_like_journal(const std::string& text);
Result<RawTrace> read_cluster_journal(const TraceText& source);

}  // namespace elastictrain::cli

// Purpose: formats of job traces, known by their headers, and the journal of a cluster as one of them.
#pragma once

#include <string>
#include <vector>

#include "cli/traces/curves.h"
#include "cli/traces/traces.h"
#include "heuristics/simulate/cluster/trace.h"

// The formats of trace files, known by their headers.
//
// | name | columns | work |
// |---|---|---|
// | normalised | job_id,arrival_s,work_iterations,requested_gpus,curve | iterations |
// | elasticflow | job_id,submission_time,num_iteration,model_name,batch_size,num_gpu (or submit_time, iteration) |
// iterations | | itp | job_id,submission_time,duration,num_gpu | duration x throughput of a curve that is dealt out |
// | philly | timestamp,duration,num_gpus,cluster | the same; the cluster is the virtual cluster |
// | muri | job_id,num_gpu,submit_time,iterations,model_name,iteration_time (times in ms) | run time at num_gpu, no
// curve | | tiresias | job_id,num_gpu,submit_time,duration,model_name | run time at num_gpu, no curve | | pollux |
// name,time,application,num_replicas,batch_size | iterations to the end of training | | gavel | 7 or 10 fields between
// tabs, no header | steps | | shockwave | 12 fields between tabs, no header | run time at the size asked for, no curve
// |

namespace elastictrain::cli {

// A job as its file has it.
struct RawJob {
  heuristics::cluster::TraceJob job;  // without a curve where curve_name is empty
  std::string curve_name;
  std::string adapted_curve_name;  // empty: none
  std::string vc;
  double duration_s = 0;  // 0: not in the file
  std::size_t line = 0;
};

struct RawTrace {
  std::string path;
  std::string name;
  std::string format;
  std::vector<RawJob> jobs;        // in the file's order
  std::vector<std::string> notes;  // for the user
  // Whether its jobs can run at other sizes than they ask for: otherwise only one throughput of each is known.
  bool has_curves() const { return format != "muri" && format != "tiresias" && format != "shockwave"; }
  // Whether its jobs have least sizes, which are kept as in a live cluster.
  bool bounded() const { return format == "cluster"; }
  bool dealt() const { return format == "itp" || format == "philly"; }
};

const std::vector<std::string>& format_names();
// `format`: empty: by the header.
Result<RawTrace> read_format(const TraceText& source, const std::string& format);

// The jobs of a cluster that has run, from its journal, as a trace: "its jobs again, under any policy".
//
// Work is in samples: what a job had trained on when it ended. Its curve is what the cluster knew of it at its end,
// made by the code that the cluster's decisions use, up to the largest size that the job allows. Priorities, pauses,
// limits of users and hosts are not in a trace; `notes` says so where they mattered, and which jobs are left out. Pure.
// Errors: kInvalid if no job of it has ended with a sample, or if it is no journal of a cluster.

inline constexpr const char* kClusterFormat = "cluster";

bool looks_like_journal(const std::string& text);
Result<RawTrace> read_cluster_journal(const TraceText& source);

}  // namespace elastictrain::cli

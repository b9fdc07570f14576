// Purpose: throughput curves by name, read from files, also from the tables of Pollux.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "heuristics/sharing/curve.h"
#include "supervisor/protocol/result.h"

// Throughput curves by name ("resnet50@256": model and global batch), read from files.
//
// - curve,gpus,iterations_per_s: one row per point; the curves.csv beside a normalised trace.
// - a directory of MODEL.csv files with global_batch_size,1,2,4,…: throughput at each number of GPUs. An empty cell or
// 0
//   was not measured.
// - Gavel's simulation_throughputs.json: worker type v100, alone.
// - a directory of Pollux's tables, one folder a model.

namespace elastictrain::cli {

using CurvePtr = std::shared_ptr<const heuristics::sharing::Curve>;
using Curves = std::map<std::string, CurvePtr, std::less<>>;

Status read_curves(const std::string& path, Curves& curves);

// The measurements that the Pollux workloads stand on (Pollux, OSDI'21), as curves in jobs a second. A
// directory has a folder for each model with
// - placements.csv: placement,local_bsz,step_time,sync_time; a placement has a digit for each host, the GPUs there;
// - scalability.csv: num_nodes,num_replicas,local_bsz,step_time,sync_time, beyond 16 GPUs;
// - validation-BATCH.csv: progress,iteration,…: a row an epoch, to the end of training with this global batch.
//
// A step of global batch B on n GPUs computes ceil(B / n) samples on each: as they are if they fit, else in equal parts
// whose gradients are summed up (step time without its sync for all but the last one). Between measured local batches a
// line; below the smallest one the size is left out. Up to 16 GPUs on the fewest hosts of four, beyond that on the most
// hosts that were measured. A job's rate is steps a second / steps to the end of training with that batch.
// pollux_curve(MODEL, kAdapted) takes the best measured batch at each size: what a job can do that adapts its batch,
// taken to be constant over its life.
//
// Errors: kInvalid with file:line:column, kNoInput for a folder that cannot be read.

inline constexpr const char* kAdapted = "adapted";

// The name of a curve of such tables.
std::string pollux_curve(const std::string& model, const std::string& batch);

bool is_pollux_directory(const std::string& path);
Status read_pollux_curves(const std::string& path, Curves& curves);

}  // namespace elastictrain::cli

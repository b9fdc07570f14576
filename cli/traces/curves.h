// Purpose: throughput curves by name ("resnet50@256": model and global batch), read from files.
//
// - curve,gpus,iterations_per_s: one row per point; the curves.csv beside a normalised trace.
// - a directory of MODEL.csv files with global_batch_size,1,2,4,…: throughput at each number of GPUs. An empty cell or
// 0
//   was not measured.
// - Gavel's simulation_throughputs.json: worker type v100, alone.
// - a directory of Pollux's tables, one folder a model (pollux_tables.h).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "heuristics/sharing/curve.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

using CurvePtr = std::shared_ptr<const heuristics::sharing::Curve>;
using Curves = std::map<std::string, CurvePtr, std::less<>>;

Status read_curves(const std::string& path, Curves& curves);

}  // namespace elastictrain::cli

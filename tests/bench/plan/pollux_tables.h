// Purpose: measured step times and epochs of six models on T4 GPUs (traces/petuum+adaptdl, see the README there).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "heuristics/scavenger/epochs_model.h"
#include "heuristics/scavenger/step_time_model.h"

namespace elastictrain::plan_bench {

const std::vector<std::string>& pollux_models();

// For `workers_per_host` (1, 2 or 4) GPUs on each of 1 to 16 hosts. A batch that does not fit into memory is missing.
std::vector<heuristics::StepTimePoint> step_times(const std::string& traces, const std::string& model,
                                                  std::uint32_t workers_per_host);

// Samples needed until the end of training for each measured global batch, relative to the smallest one; by batch.
std::vector<heuristics::EpochsPoint> epochs_by_batch(const std::string& traces, const std::string& model);

// Linear interpolation of logarithms between measured batches; 0 outside of the measured range.
double epochs_between(const std::vector<heuristics::EpochsPoint>& measured, double global_batch);

}  // namespace elastictrain::plan_bench

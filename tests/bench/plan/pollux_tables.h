// Purpose: measured step times and epochs of six models on T4 GPUs (tests/data/curves/adaptdl; source and licence:
// tests/data/README.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "heuristics/scavenger/epochs_model.h"
#include "heuristics/scavenger/step_time_model.h"

namespace elastictrain::plan_bench {

const std::vector<std::string>& pollux_models();

// Of `workers_per_host` (1, 2 or 4) GPUs on each of 1 to 16 hosts; a batch that does not fit in the memory is missing.
std::vector<heuristics::StepTimePoint> step_times(const std::string& curves, const std::string& model,
                                                  std::uint32_t workers_per_host);

// Samples needed to the end of training with each global batch that was run, relative to the smallest one; by batch.
std::vector<heuristics::EpochsPoint> epochs_by_batch(const std::string& curves, const std::string& model);

// Linear interpolation of logarithms between measured batches; 0 outside of the measured range.
double epochs_between(const std::vector<heuristics::EpochsPoint>& measured, double global_batch);

}  // namespace elastictrain::plan_bench

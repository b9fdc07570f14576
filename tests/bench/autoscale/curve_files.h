// Purpose: throughput curves of real systems, read from the public files beside the checkout.
#pragma once

#include <string>
#include <vector>

#include "heuristics/simulate/job_model.h"

namespace elastictrain::bench {

struct RealCurve {
  std::string name;
  heuristics::ThroughputCurve curve;  // as measured: not always rising
  heuristics::BatchRule batch;
  std::uint32_t slots_per_host = 8;  // of the machines it was measured on
};

// Where the files are: ELASTICTRAIN_SHARED, else `shared` beside the source tree. Empty: they are not there.
std::string traces_folder();

// TensorFlow and MXNet on K80, Pollux on T4 (full hosts first), ElasticFlow on A100 (fixed global batch). Throws
// std::runtime_error if a file is not as expected.
std::vector<RealCurve> real_curves(const std::string& traces);

// 16/32/64 -> 2200/4000/5000 images/s, as in the talk of Or et al.; below 16 in proportion.
RealCurve talk_curve();

}  // namespace elastictrain::bench

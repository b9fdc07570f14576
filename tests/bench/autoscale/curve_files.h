// Purpose: throughput curves of real systems, read from tests/data/curves (sources and licences: its README).
#pragma once

#include <string>
#include <vector>

#include "heuristics/simulate/job_model.h"

namespace elastictrain::bench {

struct RealCurve {
  std::string name;
  heuristics::ThroughputCurve curve;  // as measured: not always increasing
  heuristics::BatchRule batch;
  std::uint32_t slots_per_host = 8;  // of the machines it was measured on
};

// `folder`: tests/data/curves. TensorFlow and MXNet on K80, Pollux on T4 (full hosts first), ElasticFlow on A100 (fixed
// global batch). Throws std::runtime_error if a file cannot be read, std::exception if one is malformed.
std::vector<RealCurve> real_curves(const std::string& folder);

// 16/32/64 -> 2200/4000/5000 images/s, as in the talk of Or et al.; below 16 in proportion.
RealCurve talk_curve();

}  // namespace elastictrain::bench

// Purpose: the jobs of a cluster as a simulation takes them. Pure values. Times in seconds, work in the curve's unit.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heuristics/sharing/curve.h"

namespace elastictrain::heuristics::cluster {

struct TraceJob {
  std::string id;
  std::string model;  // for cost models that know models; may be empty
  double arrival_s = 0;
  double work = 0;
  std::uint32_t requested = 1;
  std::shared_ptr<const sharing::Curve> curve;
};

struct Trace {
  std::string name;
  std::string vc;              // the virtual cluster that it is a part of; may be empty
  bool models = true;          // false: the file names no models, so curves were dealt out or one count alone is known
  std::vector<TraceJob> jobs;  // by (arrival, file, row)
};

}  // namespace elastictrain::heuristics::cluster

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
  // With the batch that is best at each size, in the same unit; null: not known. For policies that adapt batches.
  std::shared_ptr<const sharing::Curve> adapted;
  // In a bounded trace: fewer slots are of no use to it; and it keeps as many once it has begun.
  std::uint32_t least = 1;
  bool keeps = false;
};

struct Trace {
  std::string name;
  std::string vc;              // the virtual cluster that it is a part of; may be empty
  bool elastic = true;         // false: one throughput of a job is known, that at the size that it asks for
  bool bounded = false;        // grants are fitted to the jobs' bounds, as a live cluster does (sharing/whole_shares)
  std::vector<TraceJob> jobs;  // by (arrival, file, row)
};

}  // namespace elastictrain::heuristics::cluster

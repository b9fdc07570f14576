// Purpose: finds workers that wait for their data while the others do not: a slow disk, or a loader with too few
// processes. Such a worker computes as fast as the others, so the detectors do not see it, and a new worker in its
// place would read the same data: it is only reported.
//
// A worker is data-bound when, in several views in a row and for some seconds, it has waited longer than the lower
// median of the workers by a share of the step. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "heuristics/policy/decision.h"
#include "heuristics/straggler/per_worker.h"

namespace elastictrain::heuristics {

struct DataWaitOptions {
  double min_share = 0.08;  // of a step
  double min_s = 2;
  std::uint32_t min_views = 5;
};

class DataWait {
 public:
  // The reason that names the worker that waits most; nothing if none is data-bound.
  std::optional<Reason> observe(const ClusterView& view, const JobView& job, const DataWaitOptions& options);

 private:
  struct Track {
    double excess_s = 0;  // of the newest view
    double since_s = 0;
    std::uint32_t views = 0;
  };
  PerWorker<Track> tracks_;
  double previous_s_ = 0;
};

}  // namespace elastictrain::heuristics

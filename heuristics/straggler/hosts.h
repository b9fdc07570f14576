// Purpose: finds hosts on which all workers are slow: then the host is the cause, not a worker.
//
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heuristics/straggler/detector.h"

namespace elastictrain::heuristics {

struct SlowHost {
  std::uint32_t host = 0;  // index into ClusterView::hosts
  std::vector<std::uint64_t> workers;
  double min_slowdown = 1;  // of its workers
  double max_slowdown = 1;
};

// A host with several workers of the job, of which at least one is reported slow and all are slower than the others by
// at least half of `min_slowdown`. Never the job's only host.
std::vector<SlowHost> slow_hosts(const JobView& job, const std::vector<SlowWorker>& slow,
                                 const std::vector<double>& slowdowns, double min_slowdown);

std::string host_name(const ClusterView& view, std::uint32_t host);

}  // namespace elastictrain::heuristics

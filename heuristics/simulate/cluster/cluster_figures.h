// Purpose: the figures of one simulated run of a trace. Pure. Median = sorted[int(.5 n)], p99 = sorted[int(.99 n)].
#pragma once

#include <vector>

#include "heuristics/simulate/cluster/simulation.h"

namespace elastictrain::heuristics::cluster {

struct ClusterFigures {
  std::size_t jobs = 0;
  double mean_jct_s = 0;  // time from arrival to completion
  double median_jct_s = 0;
  double p99_jct_s = 0;
  double max_jct_s = 0;
  double makespan_s = 0;   // from the first arrival
  double utilization = 0;  // slot-seconds held / (slots x makespan)
  std::uint64_t decisions = 0;
  std::uint64_t changes = 0;
  double finish_time_ratio_mean = 0;
  double finish_time_ratio_max = 0;
};

ClusterFigures figures_of(const Trace& trace, const Outcome& outcome, std::uint32_t slots);
// sum(run time at the requested size x slots) / (last - first arrival), in slots. 0 if all arrive at once.
double demand(const Trace& trace);

}  // namespace elastictrain::heuristics::cluster

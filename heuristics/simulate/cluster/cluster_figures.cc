#include "heuristics/simulate/cluster/cluster_figures.h"

#include <algorithm>

namespace elastictrain::heuristics::cluster {

ClusterFigures figures_of(const Trace& trace, const Outcome& outcome, std::uint32_t slots) {
  ClusterFigures figures;
  if (trace.jobs.empty()) return figures;
  std::vector<double> times;
  double held = 0, last_s = trace.jobs.front().arrival_s;
  for (const JobResult& result : outcome.jobs) {
    times.push_back(result.completion_s - trace.jobs[result.job].arrival_s);
    figures.mean_jct_s += times.back();
    figures.changes += result.changes;
    figures.finish_time_ratio_mean += result.finish_time_ratio;
    figures.finish_time_ratio_max = std::max(figures.finish_time_ratio_max, result.finish_time_ratio);
    held += result.slot_s;
    last_s = std::max(last_s, result.completion_s);
  }
  std::sort(times.begin(), times.end());
  const auto jobs = static_cast<double>(times.size());
  figures.jobs = times.size();
  figures.mean_jct_s /= jobs;
  figures.finish_time_ratio_mean /= jobs;
  figures.median_jct_s = times[static_cast<std::size_t>(.5 * jobs)];
  figures.p99_jct_s = times[static_cast<std::size_t>(.99 * jobs)];
  figures.max_jct_s = times.back();
  figures.makespan_s = last_s - trace.jobs.front().arrival_s;
  if (figures.makespan_s > 0) figures.utilization = held / (slots * figures.makespan_s);
  figures.decisions = outcome.decisions;
  return figures;
}

double demand(const Trace& trace) {
  if (trace.jobs.empty()) return 0;
  const double span_s = trace.jobs.back().arrival_s - trace.jobs.front().arrival_s;
  double slot_s = 0;
  for (const TraceJob& job : trace.jobs) slot_s += job.work / job.curve->as_is(job.requested) * job.requested;
  return span_s > 0 ? slot_s / span_s : 0;
}

}  // namespace elastictrain::heuristics::cluster

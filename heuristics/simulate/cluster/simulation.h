// Purpose: the simulation of a trace's jobs on a cluster under a sharing policy, and its figures.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heuristics/sharing/policy.h"
#include "heuristics/simulate/cluster/hosts.h"
#include "heuristics/simulate/cluster/progress.h"
#include "heuristics/simulate/cluster/trace.h"

// Runs the jobs of a trace on a cluster under a sharing policy, by discrete events.
//
// All that happens at one instant comes first (ends, then arrivals), then one decision. Pure and single-threaded: the
// result depends on the arguments only. Errors: a policy that grants more than there is, or leaves jobs waiting for
// ever, ends the simulation with `problem`.

namespace elastictrain::heuristics::cluster {

struct Options {
  std::uint32_t slots = 0;
  Cost cost;
  sharing::Settings settings;
  std::uint64_t seed = 1;
  bool lengths_known = true;
  HostOptions hosts = {};   // if there are any, `slots` is that of all of them
  double length_error = 0;  // standard deviation of the logarithm of what jobs say of their length
  // Of its own speed that a job has beside another one in its slots; each pair differs by up to 0.2. 0: none packs.
  double packed_speed = 0;
};

struct JobResult {
  std::uint32_t job = 0;  // in Trace::jobs
  double first_start_s = 0;
  double completion_s = 0;
  double slot_s = 0;          // slots x time held
  std::uint32_t changes = 0;  // of its slots between first start and end; suspending and coming back are one each
  std::uint32_t suspensions = 0;
  // Time from arrival to completion over the run time on an equal share of the cluster: slots / (mean number of jobs
  // present meanwhile).
  double finish_time_ratio = 0;
};

// Slots of one job from a time on.
struct Change {
  double time_s = 0;
  std::uint32_t job = 0;
  double slots = 0;
};

struct Outcome {
  std::vector<JobResult> jobs;  // in the trace's order
  std::uint64_t decisions = 0;
  std::uint64_t moves = 0;  // of jobs to other hosts, although their size stayed
  std::string problem;      // not empty: there is no result
};

// `watch`: called at every change of slots, if given.
Outcome simulate(const Trace& trace, const sharing::PolicySpec& policy, const Options& options,
                 const std::function<void(const Change&)>& watch = {});

// The figures of one simulated run of a trace. Pure. Median = sorted[int(.5 n)], p99 = sorted[int(.99 n)].

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

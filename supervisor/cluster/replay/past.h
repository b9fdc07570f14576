// Purpose: the past of a cluster from its journal: which jobs came when, what they turned out to be, how long their
// workers took to start, when the cluster learned what, and what it decided. Pure.
//
// Times are seconds of the cluster's own clock, which stands still while there is no cluster process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "supervisor/cluster/core/action.h"
#include "supervisor/cluster/core/job.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cluster::replay {

struct Line {
  cluster_core::Record record;
  double at_s = 0;
};

// A job is given slots, or fewer, or none.
struct Given {
  double at_s = 0;
  cluster_core::JobId job = 0;
  std::uint32_t slots = 0;
  bool operator==(const Given&) const = default;
};

// How long it takes what runs do, in the median.
struct Delays {
  double join_s = 0.03;      // from the start of a run's process until it joins
  double first_start_s = 1;  // from a lease until workers train on it, in a run without any
  double growth_s = 1;       // the same, beside workers that train
  double undo_s = 0.03;      // from a lease with fewer slots until they are back, whose workers had not started
  double shrink_s = 0.5;     // the same, of workers that train
  double suspend_s = 0.5;    // the same, of all
  double first_view_s = 1;   // from the first report at a size until the first that says its speed
  double measured_s = 3;     // until the speed counts
  double end_s = 0.05;       // from the last sample until the job has ended
};

struct PastJob {
  cluster_core::JobId id = 0;
  cluster_core::Owner owner;
  std::string name;
  cluster_core::JobSpec spec;  // as it was submitted; `suspends` as its run said
  double unix_s = 0;
  double submitted_s = 0;
  std::optional<double> ended_s;
  int status = 0;
  bool cancelled = false;
  double samples = 0;                                       // that it had trained on at its end
  double slot_s = 0;                                        // slots x time held
  std::optional<double> work;                               // samples of the whole job; nothing: it would have gone on
  std::shared_ptr<const heuristics::sharing::Curve> curve;  // samples a second; never null
  std::vector<double> first_starts_s, growths_s;            // what its starts took, in their order
  bool leaves_process = false;                              // its process ends when it is suspended
  // Lengths that it said later than in its first report, by the samples that it had done then.
  struct Length {
    double at_samples = 0;
    std::optional<std::uint64_t> total;
    std::uint64_t expected = 0, error = 0;
  };
  std::vector<Length> lengths;
};

struct PastOrder {
  double at_s = 0;
  cluster_core::JobId job = 0;
  cluster_core::Order order = cluster_core::Order::kCancel;
  std::int32_t priority = 0;
};

struct Past {
  std::string version, policy;
  cluster_core::record::Rules rules;
  std::vector<std::pair<double, std::vector<cluster_core::HostLine>>> hosts;  // all that there are from then on
  std::vector<PastJob> jobs;                                                  // in the order of their submission
  std::vector<PastOrder> orders;
  std::vector<Given> given;
  Delays delays;
  double until_s = 0;              // the last record
  std::vector<std::string> notes;  // what of it a replay leaves out
};

// An error: it is not enough for a replay, and why.
Result<Past> past_of(const std::vector<Line>& lines);

// Samples a second on so many slots.
double rate_of(const PastJob& job, std::uint32_t slots);
// Of all jobs, the part of the slots' time in which they trained; nothing: no job has ended.
std::optional<double> trained_share(const Past& past);

}  // namespace elastictrain::cluster::replay

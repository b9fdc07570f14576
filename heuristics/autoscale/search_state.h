// Purpose: the memory of the search for a size: measurements, the two parts of a step, and the detection of lasting
// changes. Pure values.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "heuristics/autoscale/throughput_table.h"
#include "heuristics/batch_plan.h"
#include "heuristics/policy/view.h"

// The two parts of a job's steps, computation and the rest (communication and waiting), and whether a change
// of speed has changed both alike. If it has, the machines became slower or faster and every size with them; if not,
// the job scales in another way than before.
//
// Pure. Seconds of one step, means over the workers.

namespace elastictrain::heuristics {

class StepParts {
 public:
  // The members' figures since the last view, if they have any.
  void add(const JobView& job);
  void clear() { *this = StepParts(); }

  double steps() const { return steps_; }
  bool is_known() const { return steps_ > 0 && compute_s_ > 0 && compute_s_ < step_s_; }
  double compute_s() const { return compute_s_; }
  double rest_s() const { return step_s_ - compute_s_; }
  bool has_compute() const { return steps_ > 0 && compute_s_ > 0; }
  double rest_share() const { return compute_s_ < step_s_ ? 1 - compute_s_ / step_s_ : 0; }  // of a step

 private:
  double steps_ = 0;
  double step_s_ = 0;
  double compute_s_ = 0;
};

// By how much less or more a step with other parts than these would have changed, at most (a difference of logarithms):
// 0 where both parts changed by the same factor, or where one of them hardly counts. Infinite if a part is not known.
double unevenness(const StepParts& before, const StepParts& after);

// Detects a lasting change in the throughput of a settled job. A cumulative sum on each side (Page 1954) finds
// a large change within few steps, a small lasting change later, and ignores noise.
//
// The first steps set the reference. Pure. Rates are natural logarithms; `noise` is the standard deviation of the rate
// of one step.

class ChangeDetector {
 public:
  ChangeDetector() = default;
  // Changes of at least `change` (0.1: 10 %) count, from what is known already: the mean rate over so many steps.
  explicit ChangeDetector(double change, double log_rate = 0, double steps = 0);

  // `usual`: the rate as all steps at this size say it, which is the reference until enough are known.
  void add(double log_rate, double steps, double noise, double usual);
  bool changed() const { return changed_; }
  double reference() const { return reference_; }
  // Steps that are off on one side, so far.
  bool suspects() const { return above_ > 0 || below_ > 0; }

 private:
  double reference_ = 0;
  double reference_steps_ = 0;
  double slack_ = 0.05;
  double above_ = 0;
  double below_ = 0;
  bool changed_ = false;
};

// What the search for a size remembers of one job: the measurements of each size, the parts of its steps, what
// it has settled on, and the size that it requested last.
//
// Pure values; the caller owns them. Times in seconds, rates as natural logarithms of samples per second.

inline constexpr double kMinSteps = 5;      // before any verdict on a size
inline constexpr double kEnoughSteps = 20;  // usual number of steps to measure a size

struct SearchSettings {
  double tolerance = 0.02;
  double confidence = 2.5;
  double change = 0.1;
  double quiet_s = 600;
  double give_up_s = 600;
};

struct SearchState {
  ThroughputTable table;
  BatchRule batch;
  bool began = false;

  bool settled = false;
  std::uint32_t settled_size = 0;
  std::uint32_t settled_max = 0;
  ChangeDetector detector;
  StepParts parts;  // while nothing was off
  std::map<std::uint32_t, StepParts> size_parts;
  StepParts waiting_parts;        // at the present size while more workers are starting
  StepParts changed_parts;        // since the detector reported a change
  std::vector<Interval> changed;  // the same steps; without any: no change is reported
  std::uint32_t guess = 0;        // what may be best after a change that was not alike for all sizes; 0: none
  bool follows_change = false;    // the search, or what it has settled on
  std::uint32_t moves = 0;        // of that search
  std::uint32_t best_before = 0;  // the best size when the last probe was requested; 0: none was
  std::uint32_t in_vain = 0;      // probes in succession that brought no gain
  double quiet_until_s = 0;
  double quiet_s = 0;

  std::uint32_t asked = 0;  // the size requested last; 0: none
  double asked_s = 0;
  double probe_s = 0;         // from the request of a size to a verdict on it; 0: none was tried
  std::uint32_t ceiling = 0;  // larger sizes were requested in vain; 0: none
  double ceiling_until_s = 0;

  // The steps since the last view.
  void observe(const SearchSettings& settings, const ClusterView& view, const JobView& job);
  double steps_at(std::uint32_t workers) const;  // recent ones
  // The settled size is watched for changes, from a rate known by so many steps.
  void watch_from(double change, double log_rate, double steps);
  double changed_steps() const;
  // Whether enough steps are known of a size for a verdict on it.
  bool is_measured(std::uint32_t workers) const;

 private:
  void add_parts(const JobView& job);
  void watch(const Interval& interval);
  void watch_parts(const JobView& job);
};

}  // namespace elastictrain::heuristics

// Purpose: what the search for a size remembers of one job: the measurements of each size, the parts of its steps, what
// it has settled on, and the size that it requested last.
//
// Pure values; the caller owns them. Times in seconds, rates as natural logarithms of samples per second.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "heuristics/autoscale/change_detector.h"
#include "heuristics/autoscale/step_parts.h"
#include "heuristics/autoscale/throughput_table.h"
#include "heuristics/batch_plan.h"
#include "heuristics/policy/view.h"

namespace elastictrain::heuristics {

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

// Purpose: finds the slow workers of a job by the time that each needs before the collective. Several methods by name.
//
// A detector has a memory; clone() copies it, so that it can be part of a policy's state. Pure: no clock, no I/O. Times
// in seconds. Members without new steps are skipped.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heuristics/policy/view.h"

namespace elastictrain::heuristics {

// A worker that is slow now.
struct SlowWorker {
  std::uint64_t worker = 0;
  std::uint32_t rank = 0;
  std::uint32_t host = 0;    // index into ClusterView::hosts
  double slowdown = 1;       // its time per sample relative to the others'
  double since_s = 0;        // when the slowness began
  std::uint64_t steps = 0;   // since then
  std::string because = "";  // the numbers, for the reason: "1.31 times the others' time, over 14 steps"
};

class Detector {
 public:
  virtual ~Detector() = default;
  virtual std::unique_ptr<Detector> clone() const = 0;
  // Processes one view. Returns the slow workers by rank.
  virtual std::vector<SlowWorker> observe(const JobView& job, double now_s) = 0;
  // The slowdown of each member of the last view, in its order; 1 if unknown.
  virtual const std::vector<double>& slowdowns() const = 0;
};

// The ⌈n/2⌉-th smallest, so that one slow worker of two or two of four do not shift it; 0 for no values. Reorders.
double lower_median(std::vector<double>& values);
// With the mean of the middle two, as in the papers' code; 0 for no values. Reorders.
double middle_median(std::vector<double>& values);

}  // namespace elastictrain::heuristics

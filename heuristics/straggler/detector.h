// Purpose: who of a job's workers is slow, judged by the time each needs before the collective. Several ways by name.
//
// A detector remembers what it saw; clone() copies it, so that it can live in a policy's state. Pure: no clock, no I/O.
// Times are seconds. Members without new steps are passed over.
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
  double slowdown = 1;       // its time for a sample, in times of the others'
  double since_s = 0;        // when the slowness began
  std::uint64_t steps = 0;   // since then
  std::string because = "";  // the numbers, for the reason: "1.31 times the others' time, over 14 steps"
};

class Detector {
 public:
  virtual ~Detector() = default;
  virtual std::unique_ptr<Detector> clone() const = 0;
  // Takes one view in. Slow workers by rank.
  virtual std::vector<SlowWorker> observe(const JobView& job, double now_s) = 0;
  // Of each member of the last view, by its place there, as in SlowWorker; 1 where nothing is known.
  virtual const std::vector<double>& slowdowns() const = 0;
};

// The ⌈n/2⌉-th smallest, so that one of two and two of four slow ones do not shift it; 0 of nothing. Reorders.
double lower_median(std::vector<double>& values);
// With the mean of the middle two, as the papers' code has it; 0 of nothing. Reorders.
double middle_median(std::vector<double>& values);

}  // namespace elastictrain::heuristics

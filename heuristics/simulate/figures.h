// Purpose: the quality of a trajectory, compared with the best fixed size, known in advance and without noise.
//
// loss: the value that a rule minimises, over a whole job. Efficiency: time^(1-S) x (worker-seconds)^S
// (autoscale/search.h). Cost: the decrease of the utility until the end, plus the cost. regret: loss over that of the
// best fixed size, minus 1. settled: the time at which the last change to or from a size outside of the good ones was
// complete. Good sizes are those whose loss as a fixed size is within 2 % of the best. wasted worker-seconds: over the
// segments of the trajectory, the larger of two values: the worker-seconds paid above what the target size would have
// needed for the same samples, and the extra time of the segment compared with the target size times the target's
// workers. Too many workers waste workers, too few waste time. Pure.
#pragma once

#include <cstdint>
#include <functional>

#include "heuristics/cost/cost.h"
#include "heuristics/simulate/closed_loop.h"

namespace elastictrain::heuristics {

// (seconds, worker-seconds) of a whole job -> loss.
using Loss = std::function<double(double, double)>;
Loss efficiency_loss(double target);
Loss cost_loss(Utility utility, double price_per_worker_hour);

struct FixedSize {
  std::uint32_t workers = 0;
  double job_s = 0;
  double worker_seconds = 0;
  double loss = 0;
};
FixedSize fixed_size(const JobModel& model, std::uint32_t workers, const Loss& loss);
FixedSize best_fixed_size(const JobModel& model, const Loss& loss);

struct Figures {
  double regret = 0;
  double settled_s = 0;
  std::uint32_t changes_after_settling = 0;
  std::uint32_t changes_once_said = 0;  // after the policy said that it has settled
  double wasted_worker_seconds = 0;
  std::uint32_t last_size = 0;
};
Figures figures_of(const Trajectory& trajectory, const JobModel& model, const Loss& loss);

}  // namespace elastictrain::heuristics

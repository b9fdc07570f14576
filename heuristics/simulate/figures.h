// Purpose: how well a trajectory did, compared with the best fixed size, known beforehand and without noise.
//
// loss: what a rule minimises, over a whole job. Efficiency: time^(1-S) x (worker-seconds)^S (objective.h). Cost: what
// the utility fell by until the end, and the cost.
// regret: loss over that of the best fixed size, minus 1.
// settled: when the last change to, or from, a size outside of the good ones was complete. Good are sizes whose loss as
// a fixed size is within 2 % of the best.
// wasted worker-seconds: over the segments of the trajectory, what was paid for above what the target size would have
// taken for the same samples, or the time that the segment took longer than the target size would have by the target's
// workers, whichever is more: too many workers waste themselves, too few waste time.
// Pure.
#pragma once

#include <cstdint>
#include <functional>

#include "heuristics/cost/utility.h"
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
  double wasted_worker_seconds = 0;
  std::uint32_t last_size = 0;
};
Figures figures_of(const Trajectory& trajectory, const JobModel& model, const Loss& loss);

}  // namespace elastictrain::heuristics

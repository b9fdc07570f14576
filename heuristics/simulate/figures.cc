#include "heuristics/simulate/figures.h"

#include <algorithm>
#include <cmath>

namespace elastictrain::heuristics {
namespace {

constexpr double kGood = 1.02;

double wasted(const Segment& segment, const FixedSize& target, double target_rate) {
  const double target_s = segment.samples / target_rate;
  const double above = std::max(0.0, segment.seconds() * segment.paid - target_s * target.workers);
  const double behind = std::max(0.0, segment.seconds() - target_s) * target.workers;
  return std::max(above, behind);
}

}  // namespace

Loss efficiency_loss(double target) {
  return [target](double seconds, double worker_seconds) {
    return std::pow(seconds, 1 - target) * std::pow(worker_seconds, target);
  };
}

Loss cost_loss(Utility utility, double price_per_worker_hour) {
  return [utility = std::move(utility), price_per_worker_hour](double seconds, double worker_seconds) {
    return utility(0) - utility(seconds) + worker_seconds * price_per_worker_hour / 3600;
  };
}

FixedSize fixed_size(const JobModel& model, std::uint32_t workers, const Loss& loss) {
  FixedSize fixed;
  fixed.workers = workers;
  double left = model.samples_total;
  if (model.later_from_s > 0) {
    const double before = std::min(left, model.rate(workers, 0) * model.later_from_s);
    fixed.job_s = before / model.rate(workers, 0);
    left -= before;
  }
  fixed.job_s += left / model.rate(workers, model.later_from_s);
  fixed.worker_seconds = fixed.job_s * workers;
  fixed.loss = loss(fixed.job_s, fixed.worker_seconds);
  return fixed;
}

FixedSize best_fixed_size(const JobModel& model, const Loss& loss) {
  const std::uint32_t max = std::min(model.max_workers, max_workers(model.batch));
  FixedSize best = fixed_size(model, model.min_workers, loss);
  for (std::uint32_t workers = model.min_workers + 1; workers <= max; ++workers) {
    const FixedSize other = fixed_size(model, workers, loss);
    if (other.loss < best.loss) best = other;
  }
  return best;
}

Figures figures_of(const Trajectory& trajectory, const JobModel& model, const Loss& loss) {
  Figures figures;
  const FixedSize best = best_fixed_size(model, loss);
  figures.regret = loss(trajectory.job_s, trajectory.worker_seconds) / best.loss - 1;
  const double best_rate = model.samples_total / best.job_s;
  const auto good = [&](std::uint32_t workers) { return fixed_size(model, workers, loss).loss <= kGood * best.loss; };
  for (const auto& segment : trajectory.segments) {
    figures.wasted_worker_seconds += wasted(segment, best, best_rate);
    if (!good(segment.workers)) figures.settled_s = segment.end_s;
    figures.last_size = segment.workers;
  }
  for (const auto& change : trajectory.changes) {
    if (change.at_s > figures.settled_s) ++figures.changes_after_settling;
    if (trajectory.said_settled_s >= 0 && change.at_s > trajectory.said_settled_s) ++figures.changes_once_said;
  }
  return figures;
}

}  // namespace elastictrain::heuristics

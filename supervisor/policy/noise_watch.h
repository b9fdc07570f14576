// Purpose: reports to a run how noisy its gradients are, so that the learning rate can follow by the AdaScale rule:
// when the noise is known, or known to be at least so large, and again when it has changed so much that the rate should
// change. Pure.
//
// Ownership: one per run, by the policy runner. Thread: the supervisor's loop.
#pragma once

#include <cstdint>
#include <optional>

#include "heuristics/learning_rate.h"
#include "heuristics/noise/noise_scale.h"
#include "heuristics/policy/view.h"

namespace elastictrain::policy {

class NoiseWatch {
 public:
  // With a rule that does not use the noise there is never a report. `max_workers`: of the run.
  NoiseWatch(heuristics::LearningRateRule rule, std::uint32_t max_workers) : rule_(rule), max_workers_(max_workers) {}

  void add(const heuristics::JobView& job);

  // The noise scale, in samples, if the rate at the largest batch of this run would change by it. A rate at a smaller
  // batch changes less, so the rate is right within this tolerance for any batch that the run may reach.
  std::optional<double> take_news();

 private:
  double gain(double noise_scale) const;

  const heuristics::LearningRateRule rule_;
  const std::uint32_t max_workers_;
  double base_batch_ = 0;
  double largest_batch_ = 0;
  heuristics::NoiseScale noise_;
  double reported_ = 0;  // the last one reported; 0: none yet
};

}  // namespace elastictrain::policy

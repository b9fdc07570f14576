// Purpose: reports to a run how noisy its gradients are, so that the learning rate can follow by the AdaScale rule:
// when the noise is known, and again when it has changed so much that the rate should change. Pure.
//
// Ownership: one per run, by the policy runner. Thread: the supervisor's loop.
#pragma once

#include <cstdint>
#include <optional>

#include "heuristics/learning_rate.h"
#include "heuristics/noise/noise_scale.h"
#include "supervisor/policy/observer.h"

namespace elastictrain::policy {

class NoiseWatch {
 public:
  // The batches are those of `observer`. With a rule that does not use the noise there is never a report.
  NoiseWatch(heuristics::LearningRateRule rule, const ObserverSettings& observer);

  void add(const heuristics::GradientNorms& norms) { noise_.add(norms); }

  // The noise scale, in samples, if the rate at the largest batch of this run would change by it. A rate at a smaller
  // batch changes less, so the rate is right within this tolerance for any batch that the run may reach.
  std::optional<double> take_news();

 private:
  double gain(double noise_scale) const;

  const bool is_asked_;
  const double base_batch_;
  const double largest_batch_;
  heuristics::NoiseScale noise_;
  double reported_ = 0;  // the last one reported; 0: none yet
};

}  // namespace elastictrain::policy

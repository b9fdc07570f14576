// Purpose: tells a run how noisy its gradients are, so that the learning rate can follow by the AdaScale rule: when the
// noise is known, and again when it has moved so far that the rate should. Pure.
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
  // The batches are those of `observer`. With a rule that does not ask for the noise there is never news.
  NoiseWatch(heuristics::LearningRateRule rule, const ObserverSettings& observer);

  void add(const heuristics::GradientNorms& norms) { noise_.add(norms); }

  // The noise scale, in samples, when the rate at the largest batch of this run would move by it. A rate at a smaller
  // batch moves less, so any batch that the run may come to has the rate that it should, give or take that much.
  std::optional<double> take_news();

 private:
  double gain(double noise_scale) const;

  const bool is_asked_;
  const double base_batch_;
  const double largest_batch_;
  heuristics::NoiseScale noise_;
  double told_ = 0;  // 0: nothing yet
};

}  // namespace elastictrain::policy

// Purpose: the policy "noise-batch": the batch of each worker follows the gradient noise scale; the size stays.
//
// mode "efficiency" (ours): the largest global batch at which a sample is still worth that share of what it is worth in
// a very small one, noise / (noise + batch); at 0.5 the batch equals the noise scale. It waits until the noise scale is
// known well enough, and moves by at most a factor at a time. mode "kungfu" (KungFu Fig. 4, algorithms B7): an average
// of |noise scale| / batch, each value clipped to half and twice the average; each epoch in which it has grown doubles
// the batch.
#pragma once

#include "heuristics/noise/noise_scale.h"
#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

PolicySpec noise_batch_policy();

// KungFu's average of |noise scale| over the batch of a worker.
class KungFuNoiseAverage {
 public:
  void add(const GradientNorms& norms);
  double value() const { return value_; }  // 0: nothing was added
  // Whether it is above what it was at the last call; the first call only remembers.
  bool has_grown();

 private:
  KungFuNoiseScale scale_;
  double value_ = 0;
  double before_ = 0;
};

}  // namespace elastictrain::heuristics

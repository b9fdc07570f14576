// Purpose: the policy "noise-batch": the batch of each worker follows the gradient noise scale; the size stays.
//
// Mode "efficiency" (ours): the largest global batch in which the value of a sample, relative to one in a very small
// batch, is at least the given share: noise / (noise + batch). At 0.5 the batch equals the noise scale. It waits until
// the noise scale is known well enough, or surely asks for a larger batch, and changes by at most a factor at a time.
// Mode "kungfu" (KungFu Fig. 4, algorithms B7): an average of |noise scale| / batch, each value clipped to half and
// twice the average. Each epoch in which it has grown doubles the batch.
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
  // Whether it is above its value at the last call. The first call only stores the value.
  bool has_grown();

 private:
  KungFuNoiseScale scale_;
  double value_ = 0;
  double before_ = 0;
};

}  // namespace elastictrain::heuristics

#include "train/builtin/cuda/device_synthetic.h"

#include <algorithm>

namespace elastictrain::train {

DeviceSynthetic::DeviceSynthetic(Engine& engine, SyntheticModel& host)
    : DeviceModel(engine, host),
      engine_(engine),
      host_(host),
      first_parameters_(engine, SyntheticModel::kLossParameters * sizeof(float)) {}

void DeviceSynthetic::compute(std::span<const std::uint64_t> samples, const BucketReady& ready) {
  host_.spend_time(samples.size(), [&] {
    if (host_.gradient_kind() == GradientKind::kSamples) {
      const float mean = SyntheticModel::mean_of(samples);
      engine_.launch("et_pattern_gradient", gradient(), parameters(), count(), mean);
    }
    first_parameters_.queue(parameters(), std::min(SyntheticModel::kLossParameters, count()) * sizeof(float));
  });
  for (const Range& bucket : host_.buckets()) ready(bucket);
}

}  // namespace elastictrain::train

#include "train/builtin/dataset.h"

#include <algorithm>

namespace elastictrain::train {

Scaling make_scaling(const LabelledRows& rows) {
  const std::size_t features = rows.features;
  std::vector<double> sum(features);
  std::vector<float> lowest(features);
  std::vector<float> highest(features);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t i = 0; i < features; ++i) {
      const float value = rows.value(row * features + i);
      sum[i] += value;
      lowest[i] = row == 0 ? value : std::min(lowest[i], value);
      highest[i] = row == 0 ? value : std::max(highest[i], value);
    }
  }
  Scaling scaling;
  for (std::size_t i = 0; i < features; ++i) {
    const float range = highest[i] - lowest[i];
    scaling.centre.push_back(static_cast<float>(sum[i] / static_cast<double>(rows.size())));
    scaling.factor.push_back(range > 0 ? 2.0F / range : 1.0F);
  }
  return scaling;
}

}  // namespace elastictrain::train

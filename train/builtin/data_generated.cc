#include "train/builtin/data_generated.h"

#include <algorithm>

#include "train/builtin/random.h"

namespace elastictrain::train {
namespace {

constexpr std::size_t kClasses = 10;
constexpr std::size_t kCentresPerClass = 3;
constexpr std::size_t kFeatures = 16;
constexpr double kNoise = 0.42;

std::vector<float> make_centres(Random& random) {
  std::vector<float> centres(kClasses * kCentresPerClass * kFeatures);
  for (float& value : centres) value = static_cast<float>(random.uniform(-1, 1));
  return centres;
}

LabelledRows make_rows(std::uint64_t count, const std::vector<float>& centres, Random& random) {
  LabelledRows rows;
  rows.features = kFeatures;
  rows.labels.reserve(count);
  rows.numbers.reserve(count * kFeatures);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::size_t centre = random.next() % (kClasses * kCentresPerClass);
    rows.labels.push_back(static_cast<std::uint32_t>(centre % kClasses));
    for (std::size_t f = 0; f < kFeatures; ++f) {
      rows.numbers.push_back(centres[centre * kFeatures + f] + static_cast<float>(kNoise * random.normal()));
    }
  }
  return rows;
}

}  // namespace

LabelledTask generate_task(std::uint64_t samples, std::uint64_t seed) {
  Random random(seed);
  const std::vector<float> centres = make_centres(random);
  LabelledTask task;
  task.train = make_rows(samples, centres, random);
  task.test = make_rows(std::max<std::uint64_t>(samples / 4, 1), centres, random);
  task.classes = kClasses;
  task.scaling = make_scaling(task.train);
  return task;
}

}  // namespace elastictrain::train

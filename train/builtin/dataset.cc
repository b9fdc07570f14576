#include "train/builtin/dataset.h"

#include <algorithm>
#include <utility>

#include "train/builtin/data_formats.h"
#include "train/builtin/random.h"

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

Vocabulary::Vocabulary(std::string_view text) {
  index_.fill(-1);
  for (const char c : text) index_[static_cast<std::uint8_t>(c)] = 0;
  for (std::int16_t& index : index_) {
    if (index == 0) index = static_cast<std::int16_t>(size_++);
  }
}

Result<std::vector<std::uint8_t>> Vocabulary::encode(std::string_view text, std::string_view name) const {
  std::vector<std::uint8_t> indices;
  indices.reserve(text.size());
  for (const char c : text) {
    const std::int16_t index = index_[static_cast<std::uint8_t>(c)];
    if (index < 0) {
      return error_at_offset(name, indices.size(),
                             "byte " + std::to_string(static_cast<std::uint8_t>(c)) +
                                 " does not occur in the training text; use a test text of the same kind");
    }
    indices.push_back(static_cast<std::uint8_t>(index));
  }
  return indices;
}

Result<TextTask> make_text_task(std::string_view train, std::string_view train_name, std::string_view test,
                                std::string_view test_name) {
  const Vocabulary vocabulary(train);
  if (test.empty()) {
    const std::size_t kept = train.size() - train.size() / 10;
    test = train.substr(kept);
    test_name = train_name;
    train = train.substr(0, kept);
  }
  Result<std::vector<std::uint8_t>> train_indices = vocabulary.encode(train, train_name);
  if (!train_indices) return train_indices.error();
  Result<std::vector<std::uint8_t>> test_indices = vocabulary.encode(test, test_name);
  if (!test_indices) return test_indices.error();
  return TextTask{vocabulary.size(), *std::move(train_indices), *std::move(test_indices)};
}

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

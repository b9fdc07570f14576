// Purpose: a model that learns nothing but costs what it is told to: parameter bytes, compute time per sample, a
// slow-down per worker. Gradient and loss are fixed functions of samples and parameters, so that runs can be compared
// bit by bit. See model.h for thread and failure.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "train/builtin/model.h"
#include "train/builtin/random.h"
#include "train/builtin/slow_down.h"

namespace elastictrain::train {

class SyntheticModel final : public Model {
 public:
  explicit SyntheticModel(const TrainerOptions& options);

  std::uint64_t sample_count() const override { return options_.samples; }
  double compute(std::span<const std::uint64_t> samples, const BucketReady& ready) override;
  bool has_held_out_data() const override { return false; }
  Score evaluate(std::span<const float> /*parameters*/) const override { return {}; }
  void set_worker(std::uint64_t worker_id) override;

  // What compute() takes for so many samples, before jitter; also what it costs when it spins.
  static std::chrono::nanoseconds compute_time(std::uint64_t us_per_sample, std::size_t samples, double factor);

 private:
  void fill_gradient(std::span<const std::uint64_t> samples);

  TrainerOptions options_;
  std::optional<SlowDown> slow_down_;
  Random jitter_{0};
};

}  // namespace elastictrain::train

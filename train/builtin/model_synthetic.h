// Purpose: a model that learns nothing but has configured costs: parameter bytes, compute time per sample, a slow-down
// per worker. Gradient and loss are fixed functions of samples and parameters, so that runs can be compared bit by bit.
// See model.h for thread and failure.
#pragma once

#include <chrono>
#include <functional>
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
  void load_data() override;
  void exchanged(std::uint32_t workers) override;

  // The time of compute() for this number of samples, before jitter; the same if it spins.
  static std::chrono::nanoseconds compute_time(std::uint64_t us_per_sample, std::size_t samples, double factor);

  // The time of exchanged(), before the factor of its file.
  static std::chrono::nanoseconds exchange_time(std::span<const ExchangeTime> times, std::uint32_t workers);

  // The parts of compute(), for a device that holds parameters and gradient:
  GradientKind gradient_kind() const { return options_.gradient; }
  // Runs `work` and takes as long as the options set for this number of samples.
  void spend_time(std::size_t samples, const std::function<void()>& work);
  // A function of the samples' numbers. It is a mean, like a real gradient: divided differently over workers it is the
  // same up to rounding.
  static float mean_of(std::span<const std::uint64_t> samples);
  // A function of the first kLossParameters parameters.
  static constexpr std::size_t kLossParameters = 1024;
  static double loss_of(std::span<const float> first_parameters);

 private:
  void fill_gradient(float mean);

  TrainerOptions options_;
  std::optional<SlowDown> slow_down_;
  NumberFile exchange_factor_;
  NumberFile data_wait_ms_;
  Random jitter_{0};
};

}  // namespace elastictrain::train

// Purpose: a model that learns nothing and has configured costs, and factors by which workers are slowed down in
// tests.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train/builtin/model.h"
#include "train/builtin/options.h"
#include "train/builtin/random.h"

// Slows down the synthetic model's workers, for tests and benchmarks, by numbers from the options, and from
// files in the directory $ELASTICTRAIN_SLOW_DIR, which may appear, change and vanish during the run:
//   slow-<worker id>  factor of this worker's compute time
//   slow-all          the same for every worker
//   exchange          factor of the time of an exchange
//   data-<worker id>  milliseconds that this worker waits for each batch

namespace elastictrain::train {

// A number above 0, up to a million, from a file that is read at each call; `otherwise` while there is none.
class NumberFile {
 public:
  NumberFile() = default;
  // `directory` may be empty: no file.
  NumberFile(const std::string& directory, const std::string& name, double otherwise);

  double next() const;

 private:
  std::string path_;
  double otherwise_ = 1;
};

class SlowDown {
 public:
  // `directory` may be empty: no files.
  SlowDown(std::span<const SlowWorker> slow, const std::string& directory, std::uint64_t worker_id);

  // The factor of this worker's compute time. Called once a step.
  double next_factor();

 private:
  double fixed_factor_ = 1;
  NumberFile own_;
  NumberFile of_all_;
};

// $ELASTICTRAIN_SLOW_DIR, or empty.
std::string slow_directory();

// A model that learns nothing but has configured costs: parameter bytes, compute time per sample, a slow-down
// per worker. Gradient and loss are fixed functions of samples and parameters, so that runs can be compared bit by bit.
// See model.h for thread and failure.

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

// Purpose: gradients of a quadratic whose noise scale is known: the loss of sample x is |theta - x|^2 / 2 with x
// normal, seen at a fixed distance of theta from the mean, so that a sample's gradient is (theta - mean) + noise.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "heuristics/policy/view.h"

namespace elastictrain::heuristics::testing {

class NoisyGradients {
 public:
  struct Options {
    std::uint32_t dimensions = 100;
    double noise_scale = 100;  // S / G^2, in samples; G^2 is 1
    std::uint64_t seed = 1;
  };
  struct Step {
    GradientNorms norms;
    double first_square = 0;  // of rank 0's gradient: all that KungFu's estimator looks at
  };

  explicit NoisyGradients(const Options& options) : options_(options), rng_(options.seed) {}

  // Averages over a worker's samples are drawn at once: the mean of b normal gradients is normal with 1/b the variance.
  Step step(std::uint32_t workers, double batch) {
    const double mean = 1 / std::sqrt(options_.dimensions);
    const double deviation = std::sqrt(options_.noise_scale / options_.dimensions / batch);
    std::normal_distribution<double> noise(0, deviation);
    std::vector<double> sum(options_.dimensions);
    Step step;
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      double square = 0;
      for (auto& total : sum) {
        const double value = mean + noise(rng_);
        square += value * value;
        total += value;
      }
      if (rank == 0) step.first_square = square;
      step.norms.local_square += square / workers;
    }
    for (const double total : sum) step.norms.global_square += (total / workers) * (total / workers);
    step.norms.count = 1;
    step.norms.local_batch = batch;
    step.norms.global_batch = batch * workers;
    return step;
  }

 private:
  Options options_;
  std::mt19937_64 rng_;
};

}  // namespace elastictrain::heuristics::testing

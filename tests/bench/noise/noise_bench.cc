// Measures the error of the estimated noise scale of a real model's gradients. noise_bench TRAINING_DATA; prints one
// JSON object per line.
//
// The model is the built-in trainer's, on real data, frozen at several points of its training. There, the gradients of
// all samples give the exact value: G^2 = |mean of g_i|^2 and S = mean of |g_i|^2 - G^2, with samples drawn with
// replacement. Workers then draw batches, as in training, and the estimator uses only the norms available to the
// all-reduce.
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "heuristics/noise/noise_scale.h"
#include "train/builtin/model.h"

namespace elastictrain::noise_bench {
namespace {

using heuristics::GradientNorms;
using heuristics::KungFuNoiseScale;
using heuristics::NoiseScale;
using train::Model;

constexpr std::uint32_t kBatch = 32;  // of one worker
constexpr float kLearningRate = 0.1F;
constexpr double kStatedError = 0.04;
constexpr double kMaxSteps = 200'000;

double square_of(const std::vector<double>& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

class Trained {
 public:
  Trained(Model& model, std::uint64_t seed) : model_(model), rng_(seed) {}

  void train(int steps) {
    for (int i = 0; i < steps; ++i) {
      compute(drawn());
      for (std::size_t p = 0; p < model_.parameters().size(); ++p)
        model_.parameters()[p] -= kLearningRate * model_.gradient()[p];
    }
  }

  // Of all samples.
  double true_noise_scale() {
    std::vector<double> mean(model_.gradient().size());
    double squares = 0;
    const auto count = model_.sample_count();
    for (std::uint64_t sample = 0; sample < count; ++sample) {
      compute({sample});
      for (std::size_t p = 0; p < mean.size(); ++p) {
        const double value = model_.gradient()[p];
        mean[p] += value / static_cast<double>(count);
        squares += value * value / static_cast<double>(count);
      }
    }
    const double gradient_square = square_of(mean);
    return (squares - gradient_square) / gradient_square;
  }

  struct Step {
    GradientNorms norms;
    double first_square = 0;  // of rank 0's gradient: the only input of KungFu's estimator
  };
  Step step(std::uint32_t workers) {
    std::vector<double> mean(model_.gradient().size());
    Step step{{1, 0, 0, kBatch, double{kBatch} * workers}, 0};
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      compute(drawn());
      double square = 0;
      for (std::size_t p = 0; p < mean.size(); ++p) {
        const double value = model_.gradient()[p];
        mean[p] += value / workers;
        square += value * value;
      }
      if (rank == 0) step.first_square = square;
      step.norms.local_square += square / workers;
    }
    step.norms.global_square = square_of(mean);
    return step;
  }

 private:
  std::vector<std::uint64_t> drawn() {
    std::uniform_int_distribution<std::uint64_t> any(0, model_.sample_count() - 1);
    std::vector<std::uint64_t> samples(kBatch);
    for (auto& sample : samples) sample = any(rng_);
    return samples;
  }
  void compute(const std::vector<std::uint64_t>& samples) {
    model_.compute(samples, [](train::Range) {});
  }

  Model& model_;
  std::mt19937_64 rng_;
};

void measure(Trained& trained, int trained_steps, std::uint32_t workers, double truth) {
  NoiseScale ours(1e9);
  KungFuNoiseScale kungfu;
  while (ours.steps() < kMaxSteps && (ours.steps() < 100 || ours.relative_error().value_or(1) > kStatedError)) {
    const auto seen = trained.step(workers);
    ours.add(seen.norms);
    kungfu.add(seen.first_square, seen.norms.local_batch, seen.norms.global_square, seen.norms.global_batch);
  }
  std::printf(R"({"kind":"noise-optdigits","trained_steps":%d,"workers":%u,"truth":%.4g,"ours":%.4g,"steps":%.0f,)"
              R"("kungfu":%.4g})"
              "\n",
              trained_steps, workers, truth, ours.value().value_or(0), ours.steps(), kungfu.value().value_or(0));
}

int run(const std::string& path) {
  train::TrainerOptions options;
  options.train = path;
  auto model = train::make_model(options);
  if (!model.ok()) {
    std::fprintf(stderr, "noise_bench: %s\n", model.error().message.c_str());
    return 1;
  }
  Trained trained(**model, 1);
  int done = 0;
  for (const int steps : {0, 100, 1000}) {
    trained.train(steps - done);
    done = steps;
    const double truth = trained.true_noise_scale();
    for (const std::uint32_t workers : {2U, 4U, 8U}) measure(trained, steps, workers, truth);
  }
  return 0;
}

}  // namespace
}  // namespace elastictrain::noise_bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: noise_bench TRAINING_DATA\n");
    return 64;
  }
  return elastictrain::noise_bench::run(argv[1]);
}

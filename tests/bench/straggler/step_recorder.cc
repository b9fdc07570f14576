// Purpose: a worker that really computes and records the time of each step before the collective. This is the noise
// that straggler detection must handle. `record.py` runs it and merges the workers' files. Usage: step_recorder STEPS
// PASSES DIRECTORY. Every worker writes DIRECTORY/rank-N.csv: step, compute_us, end_us.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <elastictrain/session.hpp>
#include <memory>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kWidth = 256;
constexpr std::uint32_t kBatch = 16;

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::int64_t us(Clock::duration duration) {
  return std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
}

// Forward and backward through one square layer, `passes` times: arithmetic and memory as in a real model.
struct Model {
  std::vector<float> weights = std::vector<float>(kWidth * kWidth, 0.01F);
  std::vector<float> gradient = std::vector<float>(kWidth * kWidth);
  std::vector<float> input = std::vector<float>(kBatch * kWidth, 0.5F);
  std::vector<float> output = std::vector<float>(kBatch * kWidth);

  void compute(int passes) {
    for (int pass = 0; pass < passes; ++pass) {
      std::fill(output.begin(), output.end(), 0.0F);
      for (std::size_t sample = 0; sample < kBatch; ++sample) {
        float* const out = &output[sample * kWidth];
        const float* const in = &input[sample * kWidth];
        for (std::size_t i = 0; i < kWidth; ++i) {
          const float* const row = &weights[i * kWidth];
          for (std::size_t o = 0; o < kWidth; ++o) out[o] += in[i] * row[o];
        }
        for (std::size_t i = 0; i < kWidth; ++i) {
          float* const row = &gradient[i * kWidth];
          for (std::size_t o = 0; o < kWidth; ++o) row[o] = 0.9F * row[o] + in[i] * out[o];
        }
      }
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: step_recorder STEPS PASSES DIRECTORY\n");
    return 64;
  }
  const auto steps = static_cast<std::uint64_t>(std::atoll(argv[1]));
  const int passes = std::atoi(argv[2]);
  Model model;
  elastictrain::Session session;
  session.share_state("weights", model.weights.data(), model.weights.size() * sizeof(float));
  session.set_data({.sample_count = 1'000'000'000, .batch = kBatch, .max_steps = steps});
  if (!session.start()) return 0;
  const std::string path = std::string(argv[3]) + "/rank-" + std::to_string(session.rank()) + ".csv";
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "we"));
  if (!file) {
    std::fprintf(stderr, "cannot write %s\n", path.c_str());
    return 73;
  }
  const auto start = Clock::now();
  while (auto batch = session.next_batch()) {
    const auto begin = Clock::now();
    model.compute(passes);
    const auto computed = Clock::now();
    session.all_reduce(model.gradient.data(), model.gradient.size());
    session.commit_step({.loss = model.output[0]});
    std::fprintf(file.get(), "%llu,%lld,%lld\n", static_cast<unsigned long long>(batch->step),
                 static_cast<long long>(us(computed - begin)), static_cast<long long>(us(Clock::now() - start)));
  }
  return 0;
}

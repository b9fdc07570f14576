// The replica in host memory, with a session of its own: what it reports of the halves of a batch, and that its
// gradient stays that of the whole batch.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <elastictrain/session.hpp>
#include <vector>

#include "tests/unit/trainer/plain_training.h"
#include "train/builtin/replica.h"

namespace elastictrain::train {
namespace {

TrainerOptions odd_batches(ModelKind kind) {
  TrainerOptions options;
  options.model = kind;
  options.samples = 700;
  options.batch = 7;
  options.gradient = GradientKind::kSamples;
  options.compute_us_per_sample = 0;
  options.parameter_bytes = 4000;
  return options;
}

// Each gradient as it is reduced, step by step.
std::vector<std::vector<float>> gradients(const TrainerOptions& options, bool monitors, double* noise_scale = nullptr) {
  if (!monitors) ::setenv("ELASTICTRAIN_MONITORS", "0", 1);
  const auto model = must_make(options);
  Session session;
  ::unsetenv("ELASTICTRAIN_MONITORS");
  HostReplica replica(options, *model, session);
  session.set_data({.sample_count = model->sample_count(), .batch = options.batch});
  session.start();
  std::vector<std::vector<float>> seen;
  while (const auto batch = session.next_batch()) {
    REQUIRE(replica.compute(batch->samples));
    session.wait_all_reduce();
    const auto gradient = model->gradient();
    seen.emplace_back(gradient.begin(), gradient.end());
    const auto loss = replica.update(1e-6);
    REQUIRE(loss);
    CHECK(*loss > 0);
    session.commit_step({.loss = *loss});
  }
  if (noise_scale != nullptr) *noise_scale = session.monitors().noise_scale;
  session.finish();
  return seen;
}

TEST_CASE("the gradient of the two halves of an odd batch is that of the batch") {
  for (const auto kind : {ModelKind::kMlp, ModelKind::kSynthetic}) {
    double noise_scale = 0;
    const auto halved = gradients(odd_batches(kind), true, &noise_scale);
    const auto whole = gradients(odd_batches(kind), false);
    CHECK(noise_scale != 0);
    REQUIRE(halved.size() == 100);
    REQUIRE(whole.size() == 100);
    double difference = 0;
    double largest = 0;
    for (std::size_t step = 0; step < whole.size(); ++step) {
      for (std::size_t i = 0; i < whole[step].size(); ++i) {
        difference = std::max(difference, std::abs(static_cast<double>(halved[step][i]) - whole[step][i]));
        largest = std::max(largest, std::abs(static_cast<double>(whole[step][i])));
      }
    }
    CHECK(difference < 1e-5 * largest);
  }
}

}  // namespace
}  // namespace elastictrain::train

#include "heuristics/batch/noise_batch.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/unit/heuristics/batch/batch_job.h"

namespace elastictrain::heuristics {
namespace {

using doctest::Approx;
using testing::BatchJob;
using testing::make_policy;
using testing::run_batch_job;

BatchJob four_workers(double noise_scale) {
  BatchJob model;
  model.step_s = [](std::uint32_t, double batch) { return 0.05 + 0.001 * batch; };
  model.noise_scale = [=](double) { return noise_scale; };
  model.job.workers = model.job.max_workers = 4;
  model.job.batch.per_worker = 32;
  model.job.base_batch = 128;
  return model;
}

TEST_CASE("the batch follows the noise scale: at an efficiency of one half it equals it") {
  const auto run = run_batch_job(*make_policy(noise_batch_policy()), four_workers(2000), 1000);
  CHECK(run.job.batch.per_worker * 4 == Approx(2000).epsilon(0.15));
  CHECK(run.last.code == "settled");
  // 32 -> 64 -> 128 -> 256 -> 496: never more than twice at once.
  for (std::size_t i = 1; i < run.settings.size(); ++i) CHECK(run.settings[i].second <= 2 * run.settings[i - 1].second);
}

TEST_CASE("a higher efficiency asks for a smaller batch") {
  // noise / (noise + B) = 0.8: B = noise / 4 = 500.
  const auto run = run_batch_job(*make_policy(noise_batch_policy(), {{"efficiency", 0.8}}), four_workers(2000), 1000);
  CHECK(run.job.batch.per_worker * 4 == Approx(500).epsilon(0.25));
}

TEST_CASE("limits hold: the memory of a worker, the user's largest batch, and the batch the run began with") {
  auto run = run_batch_job(*make_policy(noise_batch_policy(), {{"max_per_worker", 100.0}}), four_workers(5000), 1000);
  CHECK(run.job.batch.per_worker == 96);
  auto model = four_workers(5000);
  model.job.batch.max_global = 256;
  run = run_batch_job(*make_policy(noise_batch_policy()), model, 1000);
  CHECK(run.job.batch.per_worker == 64);
  run = run_batch_job(*make_policy(noise_batch_policy()), four_workers(40), 1000);
  CHECK(run.job.batch.per_worker == 32);
  run = run_batch_job(*make_policy(noise_batch_policy(), {{"below_base", true}}), four_workers(40), 1000);
  CHECK(run.job.batch.per_worker == 8);
}

TEST_CASE("noise that grows through training makes the batch grow, with few changes") {
  auto model = four_workers(0);
  model.noise_scale = [](double samples) { return 200 + samples / 100; };
  const auto run = run_batch_job(*make_policy(noise_batch_policy()), model, 1000);
  CHECK(run.job.batch.per_worker > 100);
  CHECK(run.settings.size() <= 12);
  for (std::size_t i = 1; i < run.settings.size(); ++i) CHECK(run.settings[i].second > run.settings[i - 1].second);
}

// At 160 samples each of 4 workers gets 40. A little below it is 32, the next multiple of 8.
TEST_CASE("a noise scale near the border of two batches does not move the batch to and fro") {
  auto model = four_workers(0);
  model.noise_scale = [](double samples) { return 160 * (1 + 0.04 * std::sin(samples / 2e4)); };
  const auto policy = make_policy(noise_batch_policy(), {{"hysteresis", 1.1}});
  CHECK(run_batch_job(*policy, model, 3000).settings.size() <= 2);
  model.norm_noise = 0.3;
  CHECK(run_batch_job(*policy, model, 3000).settings.size() <= 3);
}

// Two workers of 8 samples and a noise scale of 100,000: G^2 is 1 of 12,501 in the square of a worker's gradient.
TEST_CASE("a noise scale that is not known, but surely far larger than the batch, makes it grow") {
  auto model = four_workers(1e5);
  model.job.workers = model.job.max_workers = 2;
  model.job.batch.per_worker = 8;
  model.job.base_batch = 16;
  model.norm_noise = 0.3;
  const auto run = run_batch_job(*make_policy(noise_batch_policy(), {{"growth", 4.0}}), model, 400);
  CHECK(run.job.batch.per_worker == 1024);
  for (std::size_t i = 1; i < run.settings.size(); ++i) CHECK(run.settings[i].second > run.settings[i - 1].second);
  // The same where it is small: nothing is sure.
  model.noise_scale = [](double) { return 1.0; };
  CHECK(run_batch_job(*make_policy(noise_batch_policy()), model, 400).settings.size() == 1);
}

BatchJob one_worker(double noise_scale) {
  BatchJob model = four_workers(noise_scale);
  model.job.workers = model.job.max_workers = 1;
  model.job.base_batch = 32;
  return model;
}

TEST_CASE("the halves of a single worker's batch show the noise scale, and the batch follows it") {
  const auto run = run_batch_job(*make_policy(noise_batch_policy()), one_worker(500), 2000);
  CHECK(run.job.batch.per_worker == Approx(500).epsilon(0.15));
  CHECK(run.last.code == "settled");
  auto silent = one_worker(500);
  silent.reports_halves = false;
  const auto unknown = run_batch_job(*make_policy(noise_batch_policy()), silent, 2000);
  CHECK(unknown.settings.size() == 1);
  CHECK(unknown.last.code == "measuring");
}

TEST_CASE("by KungFu's rule the batch of a single worker doubles with the noise as well") {
  auto model = one_worker(0);
  model.noise_scale = [](double samples) { return 100 + samples / 200; };
  const auto run = run_batch_job(*make_policy(noise_batch_policy(), {{"mode", std::string("kungfu")}}), model, 8000);
  CHECK(run.job.batch.per_worker == 1024);
}

TEST_CASE("KungFu's average compares with the batch of a worker, also where its own norms are of halves") {
  // G 1, S 32 as below: noise scale 32 over a batch of 128.
  KungFuNoiseAverage average;
  average.add(
      {.count = 1, .local_square = 1.5, .global_square = 1.25, .local_batch = 64, .global_batch = 128, .workers = 1});
  CHECK(average.value() == Approx(0.25));
}

TEST_CASE("without norms nothing is decided") {
  const auto run = run_batch_job(*make_policy(noise_batch_policy()), four_workers(0), 300);
  CHECK(run.settings.size() == 1);
  CHECK(run.last.code == "measuring");
}

TEST_CASE("KungFu's average: the first value starts it, later ones are clipped to half and twice") {
  // b 32, B 128; G 1: a noise scale of 32 gives 1, then 64 gives an EMA of 35.2: 1.1; (0.9 * 1 + 0.1 * 1.1).
  const GradientNorms first{
      .count = 1, .local_square = 2, .global_square = 1.25, .local_batch = 32, .global_batch = 128};
  GradientNorms second = first;
  second.local_square = 3;
  second.global_square = 1.5;
  KungFuNoiseAverage average;
  CHECK_FALSE(average.has_grown());
  average.add(first);
  CHECK(average.value() == Approx(1));
  average.add(second);
  CHECK(average.value() == Approx(1.01));
  // G 1, S 4096: the EMA is 0.9 * 35.2 + 409.6 = 441.3, over 32 is 13.8: clipped to 2.02.
  GradientNorms wild = first;
  wild.local_square = 1 + 4096.0 / 32;
  wild.global_square = 1 + 4096.0 / 128;
  average.add(wild);
  CHECK(average.value() == Approx(0.9 * 1.01 + 0.1 * 2.02));
}

TEST_CASE("KungFu's policy doubles the batch after each epoch in which the noise grew, up to its limit") {
  auto model = four_workers(0);
  model.noise_scale = [](double samples) { return 100 + samples / 200; };
  const auto policy = make_policy(noise_batch_policy(), {{"mode", std::string("kungfu")}});
  auto run = run_batch_job(*policy, model, 4000);
  CHECK(run.job.batch.per_worker == 1024);
  for (std::size_t i = 1; i < run.settings.size(); ++i) CHECK(run.settings[i].second == 2 * run.settings[i - 1].second);
  CHECK(run.last.code != "noise_grew");
  model.noise_scale = [](double samples) { return 1e4 / (1 + samples / 1e4); };
  run = run_batch_job(*policy, model, 1000);
  CHECK(run.job.batch.per_worker == 32);
}

}  // namespace
}  // namespace elastictrain::heuristics

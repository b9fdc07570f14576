// The input of a plan before any model is fitted: the steps that count, and the candidates.
#include "heuristics/scavenger/job_plan.h"

#include <doctest/doctest.h>

#include <cmath>

namespace elastictrain::heuristics {
namespace {

using doctest::Approx;

// `steps` steps of `step_s` each, by two workers with 32 samples each.
Interval interval_of(std::uint64_t steps, double step_s) {
  return {.begin_s = 0, .end_s = static_cast<double>(steps) * step_s, .workers = 2, .steps = steps, .global_batch = 64};
}

JobView job_with(std::vector<Interval> intervals) {
  JobView job;
  job.intervals = std::move(intervals);
  return job;
}

TEST_CASE("steps of a warm-up, and intervals without a step, are not measured") {
  StepMeasurements measured;
  Interval warm_up = interval_of(10, 9.0);
  warm_up.warm_up = true;
  measured.add(job_with({warm_up, interval_of(0, 1.0)}));
  CHECK(measured.points().empty());
  measured.add(job_with({warm_up, interval_of(10, 0.5)}));
  REQUIRE(measured.points().size() == 1);
  CHECK(measured.points()[0].seconds == Approx(0.5));
  CHECK(measured.steps_at({2, 32}) == 10);
}

TEST_CASE("a mean over all steps forgets nothing, one over the recent ones follows") {
  StepMeasurements all;
  StepMeasurements recent;
  for (const double step_s : {1.0, 1.0, 3.0, 3.0}) {
    all.add(job_with({interval_of(50, step_s)}));
    recent.add(job_with({interval_of(50, step_s)}), 100);
  }
  CHECK(all.points()[0].seconds == Approx(2.0));
  // Half of each 50 steps of 100: 1, 1, then 1 + 2 / 2, then 2 + 1 / 2.
  CHECK(recent.points()[0].seconds == Approx(2.5));
}

TEST_CASE("a noise scale is used once it is known well enough") {
  StepMeasurements measured;
  JobView job;
  for (const double local_square : {1.5, 3.0, 1.1, 2.5}) {
    job.norms = {
        .count = 1, .local_square = local_square, .global_square = 1.0, .local_batch = 32, .global_batch = 128};
    measured.add(job);
  }
  CHECK_FALSE(measured.noise_scale());
  StepMeasurements known;
  for (int i = 0; i < 10; ++i) {
    job.norms = {.count = 10, .local_square = 2.0, .global_square = 1.25, .local_batch = 32, .global_batch = 128};
    known.add(job);
  }
  REQUIRE(known.noise_scale());
  CHECK(*known.noise_scale() == Approx(32));
}

// G^2 = 1, S = 32, b = 32, K = 4: gamma is 1.6 with 128 samples, so half of that with 512.
TEST_CASE("with the SGD noise of a run epochs follow from theta") {
  StepMeasurements measured;
  const StatisticsRule rule{EpochsForm::kPaper, -0.25};
  JobView job;
  job.norms = {.count = 49, .local_square = 2.0, .global_square = 1.25, .local_batch = 32, .global_batch = 128};
  measured.add(job);
  job.norms = {.count = 50, .local_square = 3.0, .global_square = 3.0, .local_batch = 32, .global_batch = 32};
  measured.add(job);  // one worker says nothing
  CHECK_FALSE(measured.sgd_noise());
  CHECK_FALSE(measured.epochs(rule, 128));
  job.norms = {.count = 1, .local_square = 2.0, .global_square = 1.25, .local_batch = 32, .global_batch = 128};
  measured.add(job);
  REQUIRE(measured.sgd_noise());
  CHECK(*measured.sgd_noise() == Approx(1.6 * std::sqrt(128.0)));
  const auto epochs = measured.epochs(rule, 128);
  REQUIRE(epochs);
  CHECK(epochs->epochs(128) == Approx(1));
  CHECK(epochs->epochs(512) == Approx(0.8 / 0.6));  // (1 - 0.25 * 0.8) / (1 - 0.25 * 1.6)
}

// G^2 = 1, S = 32: a worker of 64 has halves of 32, |g_32|^2 = 2 and |g_64|^2 = 1.5, as two workers of 32 would.
TEST_CASE("the SGD noise of a single worker is that of its two halves, until several workers were measured") {
  StepMeasurements measured;
  JobView job;
  job.norms = {
      .count = 60, .local_square = 2.0, .global_square = 1.5, .local_batch = 32, .global_batch = 64, .workers = 1};
  measured.add(job);
  REQUIRE(measured.sgd_noise());
  CHECK(*measured.sgd_noise() == Approx(2 / 1.5 * std::sqrt(64.0)));
  const GradientNorms of_four{
      .count = 49, .local_square = 2.0, .global_square = 1.25, .local_batch = 32, .global_batch = 128, .workers = 4};
  job.norms = of_four;
  measured.add(job);
  CHECK(*measured.sgd_noise() == Approx(2 / 1.5 * std::sqrt(64.0)));
  job.norms.count = 1;
  measured.add(job);
  CHECK(*measured.sgd_noise() == Approx(1.6 * std::sqrt(128.0)));
}

TEST_CASE("points that the limit of the global batch makes equal, or leaves without a sample, are named once or not") {
  BatchRule rule;
  rule.per_worker = 32;
  rule.max_global = 64;
  rule.at_limit = AtLimit::kSplit;
  const auto points = kept_to_limit(rule, {{2, 32}, {2, 64}, {2, 16}, {128, 32}});
  CHECK(points == std::vector<SearchPoint>{{2, 32}, {2, 16}});
}

TEST_CASE("all sizes are compared while they are few, then 64 of them from end to end") {
  CHECK(compared_space(3, 6, {32}).workers == std::vector<std::uint32_t>{3, 4, 5, 6});
  CHECK(compared_space(1, 64, {32}).workers.size() == 64);
  const auto many = compared_space(1, 100'000, {32}).workers;
  CHECK(many.size() <= 64);
  CHECK(many.front() == 1);
  CHECK(many.back() == 100'000);
}

TEST_CASE("from a single point a universal model knows what other sizes cost, any other one does not") {
  const SearchSpace space{{1, 2, 4, 8}, {32}, 0};
  const std::vector<StepTimePoint> one{{2, 32, 0.5}};
  const auto universal = fit_step_times(StepTimeForm::kPaperPerWorker, one, true, space, 1);
  const auto flat = fit_step_times(StepTimeForm::kPaperPerWorker, one, false, space, 1);
  REQUIRE(universal);
  REQUIRE(flat);
  const double expected = universal_points(space, one.front()).back().seconds;
  CHECK(universal->seconds(8, 32) == Approx(expected).epsilon(0.05));
  CHECK(flat->seconds(8, 32) != Approx(expected).epsilon(0.2));
  CHECK_FALSE(fit_step_times(StepTimeForm::kPaperPerWorker, {}, true, space, 1));
}

TEST_CASE("a batch that the limit splits counts as a whole, though not every share is as large") {
  BatchRule rule;
  rule.per_worker = 16;
  rule.max_global = 64;
  const auto candidates = kept_to_limit(rule, std::vector<SearchPoint>{{4, 16}, {12, 16}, {12, 4}});
  const auto model = StepTimeModel::fit(StepTimeForm::kComponents, {{4, 16, 0.1}, {12, 5, 0.1}, {12, 4, 0.1}}, 12);
  REQUIRE(model);
  const auto points = plan_points(candidates, *model, work_of(6400, rule, std::nullopt), {}, {{12, 5, 0.1}});
  REQUIRE(points.size() == 3);
  CHECK(points[0].global_batch == 64);
  CHECK(points[1].global_batch == 64);  // 12 shares of 5 or 6
  CHECK(points[1].seconds == Approx(10));
  CHECK(points[2].global_batch == 48);
}

}  // namespace
}  // namespace elastictrain::heuristics

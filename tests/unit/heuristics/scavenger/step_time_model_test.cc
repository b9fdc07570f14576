#include "heuristics/scavenger/step_time_model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

namespace elastictrain::heuristics {
namespace {

using doctest::Approx;

// Computing 0.02 s + 0.005 s a sample, a ring of 0.3 s, 0.01 s more for each worker, overlapping as g = 2.
double true_step_s(std::uint32_t workers, double batch) {
  const double compute = 0.02 + 0.005 * batch;
  if (workers == 1) return compute;
  const double communicate = 2 * 0.3 * (workers - 1) / workers + 0.01 * (workers - 2);
  return std::sqrt(compute * compute + communicate * communicate);
}

std::vector<StepTimePoint> true_points(const std::vector<std::uint32_t>& workers, const std::vector<double>& batches) {
  std::vector<StepTimePoint> points;
  for (const auto size : workers)
    for (const auto batch : batches) points.push_back({size, batch, true_step_s(size, batch)});
  return points;
}

TEST_CASE("the paper's form is a plane through the points") {
  // t = 0.1 + 0.002 B/K + 0.03 K: (1, 50) 0.23, (4, 50) 0.32, (4, 100) 0.42, (8, 25) 0.39.
  const auto model =
      StepTimeModel::fit(StepTimeForm::kPaperPerWorker, {{1, 50, 0.23}, {4, 50, 0.32}, {4, 100, 0.42}, {8, 25, 0.39}});
  REQUIRE(model);
  CHECK(model->coefficients()[0] == Approx(0.1));
  CHECK(model->coefficients()[1] == Approx(0.002));
  CHECK(model->coefficients()[2] == Approx(0.03));
  CHECK(model->seconds(16, 10) == Approx(0.6));
}

TEST_CASE("the paper's form with the global batch") {
  // t = 0.1 + 0.001 B + 0.02 K: (1, 50): B 50, 0.17; (2, 50): B 100, 0.24; (4, 10): B 40, 0.22; (8, 10): B 80, 0.34.
  const auto model =
      StepTimeModel::fit(StepTimeForm::kPaperGlobal, {{1, 50, 0.17}, {2, 50, 0.24}, {4, 10, 0.22}, {8, 10, 0.34}});
  REQUIRE(model);
  CHECK(model->seconds(4, 100) == Approx(0.1 + 0.4 + 0.08));
}

TEST_CASE("a plane never predicts a step without time") {
  const auto model = StepTimeModel::fit(StepTimeForm::kPaperPerWorker, {{1, 100, 1.0}, {1, 200, 2.1}, {2, 100, 1.1}});
  REQUIRE(model);
  CHECK(model->seconds(1, 1) == Approx(0.05));  // the plane is at -0.089 there
}

TEST_CASE("points that make no sense are left out") {
  CHECK_FALSE(StepTimeModel::fit(StepTimeForm::kComponents, {}));
  CHECK_FALSE(StepTimeModel::fit(StepTimeForm::kComponents, {{0, 32, 1}, {2, 0, 1}, {2, 32, 0}, {2, 32, NAN}}));
  const auto one = StepTimeModel::fit(StepTimeForm::kComponents, {{4, 32, 0.5}, {2, 32, -1}});
  REQUIRE(one);
  CHECK(one->seconds(4, 32) == Approx(0.5).epsilon(0.03));
}

TEST_CASE("our form finds computing, communicating and their overlap from a few points") {
  const auto model = StepTimeModel::fit(StepTimeForm::kComponents, true_points({1, 4, 16}, {10, 40, 160}));
  REQUIRE(model);
  for (const std::uint32_t workers : {1U, 2U, 3U, 8U, 12U, 16U}) {
    for (const double batch : {10.0, 20.0, 80.0, 120.0}) {
      CAPTURE(workers);
      CAPTURE(batch);
      CHECK(model->seconds(workers, batch) == Approx(true_step_s(workers, batch)).epsilon(0.08));
    }
  }
  // A plane through the same points is far off where one part hides behind the other.
  const auto plane = StepTimeModel::fit(StepTimeForm::kPaperPerWorker, true_points({1, 4, 16}, {10, 40, 160}));
  CHECK(std::abs(plane->seconds(2, 10) / true_step_s(2, 10) - 1) > 0.1);
}

TEST_CASE("what is odd about one batch is odd about it at every size, and so with a size") {
  auto points = true_points({2, 4, 8, 16}, {10, 20, 40, 80, 160});
  std::vector<StepTimePoint> known;
  for (auto& point : points) {
    const double odd = (point.local_batch == 80 ? 1.25 : 1.0) * (point.workers == 4 ? 1.3 : 1.0);
    point.seconds *= odd;
    if (!(point.local_batch == 80 && point.workers == 8) && !(point.workers == 4 && point.local_batch == 10))
      known.push_back(point);
  }
  const auto model = StepTimeModel::fit(StepTimeForm::kComponents, known);
  REQUIRE(model);
  CHECK(model->seconds(8, 80) == Approx(1.25 * true_step_s(8, 80)).epsilon(0.08));
  CHECK(model->seconds(4, 10) == Approx(1.3 * true_step_s(4, 10)).epsilon(0.08));
}

TEST_CASE("what workers of one host tell each other is not taken for a network") {
  auto points = true_points({4, 16, 64}, {10, 40, 160});
  for (auto& point : points)
    if (point.workers == 4) point.seconds = 0.02 + 0.005 * point.local_batch;  // next to nothing within a host
  const auto model = StepTimeModel::fit(StepTimeForm::kComponents, points, 4);
  REQUIRE(model);
  CHECK(model->seconds(4, 20) == Approx(0.12).epsilon(0.1));
  CHECK(model->seconds(8, 10) == Approx(true_step_s(8, 10)).epsilon(0.15));
}

TEST_CASE("the order of the points does not matter") {
  auto points = true_points({1, 2, 8}, {10, 50});
  const auto forwards = StepTimeModel::fit(StepTimeForm::kComponents, points);
  std::reverse(points.begin(), points.end());
  const auto backwards = StepTimeModel::fit(StepTimeForm::kComponents, points);
  CHECK(forwards->seconds(4, 30) == Approx(backwards->seconds(4, 30)).epsilon(1e-4));
}

}  // namespace
}  // namespace elastictrain::heuristics

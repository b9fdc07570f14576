#include "heuristics/scavenger/plan_curve.h"

#include <doctest/doctest.h>

#include <cmath>

namespace elastictrain::heuristics {
namespace {

using doctest::Approx;

PlanPoint point(double seconds, double cost) {
  return {.workers = 1, .local_batch = 1, .seconds = seconds, .cost = cost};
}

TEST_CASE("epochs: the paper's form is linear in gamma = g / sqrt(B)") {
  // e = 10 + 8 gamma with g = 16: B = 64, gamma 2, e 26; B = 256, gamma 1, e 18.
  const auto model = EpochsModel::fit(EpochsForm::kPaper, {{64, 26, 2}, {256, 18, 1}});
  REQUIRE(model);
  CHECK(model->base() == Approx(10));
  CHECK(model->theta() == Approx(8));
  CHECK(model->epochs(1024) == Approx(14));  // gamma 0.5
  // The same from g, theta / e* and the epochs of one batch.
  const auto given = EpochsModel::from_sgd_noise(16, 0.8, 64, 26);
  REQUIRE(given);
  CHECK(given->base() == Approx(10));
  CHECK(given->theta() == Approx(8));
  CHECK(given->epochs(256) == Approx(18));
  CHECK(given->epochs(1024) == Approx(14));
  // 1 - 0.6 gamma is below 0 with gamma 2.
  CHECK_FALSE(EpochsModel::from_sgd_noise(16, -0.6, 64, 26));
  // Without gamma its scale is part of theta; what is predicted is the same.
  const auto unmeasured = EpochsModel::fit(EpochsForm::kPaper, {{64, 26}, {256, 18}});
  CHECK(unmeasured->epochs(1024) == Approx(14));
}

TEST_CASE("epochs: by default they grow with the batch over the noise scale") {
  // e = 10 (1 + B / 1000): B = 100 needs 11, B = 500 needs 15.
  const auto model = EpochsModel::fit(EpochsForm::kNoise, {{100, 11}, {500, 15}});
  REQUIRE(model);
  CHECK(model->epochs(1000) == Approx(20));
  CHECK(model->base() / model->theta() == Approx(1000));
  CHECK(EpochsModel::from_noise(1000, 100, 11).epochs(1000) == Approx(20));
  CHECK(EpochsModel::from_noise(0, 100, 11).epochs(1000) == 11);
}

TEST_CASE("epochs: one batch gives a constant, noise that runs the wrong way no gain") {
  CHECK(EpochsModel::fit(EpochsForm::kNoise, {{100, 12}})->epochs(3200) == Approx(12));
  CHECK(EpochsModel::fit(EpochsForm::kNoise, {{100, 12}, {200, 11.9}})->epochs(3200) == Approx(11.95).epsilon(0.001));
  CHECK_FALSE(EpochsModel::fit(EpochsForm::kNoise, {}));
  // The paper's line falls with the root of the batch, below nothing at last: a tenth of what was measured is left.
  CHECK(EpochsModel::fit(EpochsForm::kPaper, {{16, 10}, {64, 4}})->epochs(100'000) == Approx(0.4));
}

TEST_CASE("time is steps times step time, and cost is time times the price") {
  // K = 4, b = 25: B = 100, 10 epochs of 1000 samples are 100 steps of 0.1 + 0.001 * 25 + 0.02 * 4 = 0.205 s.
  const auto steps =
      StepTimeModel::fit(StepTimeForm::kPaperPerWorker, {{1, 50, 0.17}, {4, 50, 0.23}, {4, 100, 0.28}, {8, 10, 0.27}});
  PriceRule prices{.per_s = [](std::uint32_t workers) { return 0.5 * workers; }};
  const std::vector<SearchPoint> space{{4, 25}, {4, 50}};
  auto points = plan_points(space, *steps, {1000, EpochsModel(10)}, prices);
  REQUIRE(points.size() == 2);
  CHECK(points[0].seconds == Approx(20.5));
  CHECK(points[0].cost == Approx(41));
  CHECK_FALSE(points[0].measured);
  // With the memory's price a batch twice the base costs twice as much a second.
  prices.form = PriceForm::kMemory;
  prices.base_local_batch = 25;
  points = plan_points(space, *steps, {1000, EpochsModel(10)}, prices, {{4, 50, 0.2}});
  CHECK(points[0].cost == Approx(41));
  CHECK(points[1].measured);
  CHECK(points[1].seconds == Approx(10));  // 50 steps of the measured 0.2 s
  CHECK(points[1].cost == Approx(10 * 2 * 2));
}

TEST_CASE("the front leaves out what is beaten in both") {
  const std::vector<PlanPoint> points{point(10, 5), point(5, 9),  point(6, 9.5),
                                      point(20, 4), point(12, 5), point(5, 9)};
  CHECK(pareto_front(points) == std::vector<std::size_t>{1, 0, 3});
  CHECK(pareto_front({}).empty());
}

TEST_CASE("the knee is farthest below the line between the ends") {
  // Scaled: (0, 1), (0.1, 0.5), (0.4, 0.3), (1, 0): below by 0, 0.4, 0.3, 0.
  const std::vector<PlanPoint> points{point(10, 30), point(11, 20), point(14, 16), point(20, 10)};
  CHECK(knee(points, pareto_front(points)) == 1);
  // On a straight line there is none: the fastest.
  const std::vector<PlanPoint> line{point(10, 30), point(15, 20), point(20, 10)};
  CHECK(knee(line, pareto_front(line)) == 0);
}

TEST_CASE("each goal takes its own point, with a reason") {
  const std::vector<PlanPoint> points{point(10, 30), point(11, 20), point(14, 16), point(20, 10)};
  const auto chosen = [&](Goal goal, double limit = 0) { return *choose(points, {goal, limit}).point; };
  CHECK(chosen(Goal::kFastest) == 0);
  CHECK(chosen(Goal::kCheapest) == 3);
  CHECK(chosen(Goal::kKnee) == 1);
  CHECK(chosen(Goal::kDeadline, 15) == 2);
  CHECK(chosen(Goal::kBudget, 18) == 2);
  const auto missed = choose(points, {Goal::kDeadline, 5});
  CHECK(*missed.point == 0);
  CHECK_FALSE(missed.limit_met);
  CHECK(missed.reason.code == "deadline_missed");
  CHECK(missed.reason.text == "nothing ends within 5.0 s; the fastest is 1 worker of 1: 10.0 s, cost 30");
  const auto poor = choose(points, {Goal::kBudget, 1});
  CHECK(*poor.point == 3);
  CHECK(poor.reason.code == "budget_missed");
  CHECK(choose(points, {Goal::kDeadline, 15}).reason.text ==
        "1 worker of 1: 14.0 s, cost 16 is the cheapest within 15.0 s");
  CHECK_FALSE(choose({}, {}).point);
}

TEST_CASE("of sizes that cost the same within the error of measurement the fastest is taken") {
  // Linear scaling: noise makes three of four workers the cheapest.
  const std::vector<PlanPoint> linear{point(400, 1.00), point(200, 1.005), point(133, 0.99), point(100, 1.002)};
  CHECK(*choose(linear, {Goal::kCheapest, 0}).point == 3);
  CHECK(*choose(linear, {Goal::kKnee, 0}).point == 3);
  CHECK(*choose(linear, {Goal::kDeadline, 300}).point == 3);
  CHECK(choose(linear, {Goal::kCheapest, 0}).reason.text ==
        "1 worker of 1: 1m 40s, cost 1.002 is the fastest that costs at most 2 % more than the cheapest");
  CHECK(choose(linear, {Goal::kDeadline, 300})
            .reason.text.ends_with("is the fastest that costs at most 2 % more than the cheapest, all within 5m 00s"));
  CHECK(choose({point(400, 1), point(200, 1)}, {Goal::kCheapest, 0}).reason.text.ends_with("is the cheapest"));
  CHECK(*choose({point(400, 1.00), point(200, 1.03)}, {Goal::kCheapest, 0}).point == 0);
}

TEST_CASE("goals have names") {
  for (const auto& name : goal_names()) CHECK(goal_names()[static_cast<std::size_t>(*goal_of(name))] == name);
  CHECK_FALSE(goal_of("best"));
}

}  // namespace
}  // namespace elastictrain::heuristics

// A job that changes some time after the search has settled on a size.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "heuristics/autoscale/efficiency.h"
#include "heuristics/simulate/closed_loop.h"

namespace elastictrain::heuristics {
namespace {

constexpr std::uint32_t kMax = 16;
constexpr double kSettled_s = 40;
constexpr double kTimeToFollow_s = 60;

// Steps of 40 ms of computation, and communication that grows with the workers.
ThroughputCurve curve_of(double communicate_s, double per_worker_s) {
  std::vector<std::pair<std::uint32_t, double>> points;
  for (std::uint32_t workers = 1; workers <= kMax; ++workers) {
    const double rest_s = workers == 1 ? 0 : communicate_s + per_worker_s * (workers - 1);
    points.emplace_back(workers, 32 * workers / (0.04 + rest_s));
  }
  return ThroughputCurve(points);
}

ThroughputCurve scaled(const ThroughputCurve& curve, double factor) {
  auto points = curve.points();
  for (auto& point : points) point.second *= factor;
  return ThroughputCurve(points);
}

double value(const ThroughputCurve& curve, std::uint32_t workers) {
  return std::log(curve(workers)) - 0.5 * std::log(workers);
}

double loss(const ThroughputCurve& curve, std::uint32_t workers) {
  double best = value(curve, 1);
  for (std::uint32_t size = 2; size <= kMax; ++size) best = std::max(best, value(curve, size));
  return best - value(curve, workers);
}

struct Followed {
  std::size_t most_changes = 0;
  std::uint32_t wrong = 0;  // of 200 runs: more than 5 % off the best size a minute later
};

Followed follow(const ThroughputCurve& before, const ThroughputCurve& after) {
  const auto spec = efficiency_policy();
  const auto policy = spec.make(check_parameters(spec, {}).parameters);
  Followed followed;
  for (const double settled_for_s : {60.0, 120.0, 300.0, 900.0}) {
    JobModel model;
    model.curve = before;
    model.later = after;
    model.later_from_s = kSettled_s + settled_for_s;
    model.warm_up_steps = 1;
    model.cold_start_s = 1;
    model.batch.per_worker = 32;
    model.max_workers = model.slots_per_host = kMax;
    model.samples_total = 1e12;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      const double end_s = model.later_from_s + kTimeToFollow_s;
      const auto run =
          run_closed_loop(*policy, model, {.start_workers = 4, .view_every_s = 1, .seed = seed, .longest_s = end_s});
      std::size_t changes = 0;
      for (const auto& change : run.changes) changes += change.at_s >= kSettled_s;
      followed.most_changes = std::max(followed.most_changes, changes);
      followed.wrong += loss(after, run.size_at(end_s)) > 0.05;
    }
  }
  return followed;
}

TEST_CASE("a job whose sizes all become slower or faster alike keeps its size") {
  const ThroughputCurve curve = curve_of(0.002, 0.004);
  for (const double factor : {0.4, 0.7, 1.4}) {
    CAPTURE(factor);
    CHECK(follow(curve, scaled(curve, factor)).most_changes == 0);
  }
}

TEST_CASE("a job that scales in another way than before is at its right size within a minute, in few changes") {
  const std::pair<ThroughputCurve, ThroughputCurve> changes[] = {
      {curve_of(0.002, 0.004), curve_of(0.008, 0.016)},  // the network is four times slower
      {curve_of(0.002, 0.012), curve_of(0.002, 0.003)},  // … or faster
      {curve_of(0.001, 0.0005), curve_of(0.01, 0.02)},
  };
  for (const auto& [before, after] : changes) {
    const Followed followed = follow(before, after);
    CHECK(followed.most_changes <= 4);
    CHECK(followed.wrong <= 4);
  }
}

}  // namespace
}  // namespace elastictrain::heuristics

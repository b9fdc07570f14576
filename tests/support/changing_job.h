// Purpose: a job that changes some time after the search has settled on a size, in a closed loop: by how many changes
// of size it is followed, and whether to the right one. For the unit tests of the policies and for the benchmark.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "heuristics/autoscale/search_policy.h"
#include "heuristics/simulate/closed_loop.h"

namespace elastictrain::test {

inline constexpr std::uint32_t kMaxWorkers = 16;
inline constexpr double kSettled_s = 40;
inline constexpr double kTimeToFollow_s = 60;

// Steps of 40 ms of computation, and communication that grows with the workers.
inline heuristics::ThroughputCurve curve_of(double communicate_s, double per_worker_s) {
  std::vector<std::pair<std::uint32_t, double>> points;
  for (std::uint32_t workers = 1; workers <= kMaxWorkers; ++workers) {
    const double rest_s = workers == 1 ? 0 : communicate_s + per_worker_s * (workers - 1);
    points.emplace_back(workers, 32 * workers / (0.04 + rest_s));
  }
  return heuristics::ThroughputCurve(points);
}

inline heuristics::ThroughputCurve scaled(const heuristics::ThroughputCurve& curve, double factor) {
  auto points = curve.points();
  for (auto& point : points) point.second *= factor;
  return heuristics::ThroughputCurve(points);
}

inline double value(const heuristics::ThroughputCurve& curve, std::uint32_t workers) {
  return std::log(curve(workers)) - 0.5 * std::log(workers);
}

inline double loss(const heuristics::ThroughputCurve& curve, std::uint32_t workers) {
  double best = value(curve, 1);
  for (std::uint32_t size = 2; size <= kMaxWorkers; ++size) best = std::max(best, value(curve, size));
  return best - value(curve, workers);
}

struct Followed {
  double settled_for_s = 0;      // before the job changed
  std::size_t most_changes = 0;  // after the job changed
  std::uint32_t wrong = 0;       // of `runs`: more than 5 % off the best size a minute later
  std::uint32_t runs = 0;
};

// 50 seeds for each of four times between settling and the change.
inline std::vector<Followed> follow(const heuristics::ThroughputCurve& before,
                                    const heuristics::ThroughputCurve& after) {
  const auto spec = heuristics::efficiency_policy();
  const auto policy = spec.make(heuristics::check_parameters(spec, {}).parameters);
  std::vector<Followed> all;
  for (const double settled_for_s : {60.0, 120.0, 300.0, 900.0}) {
    Followed followed{.settled_for_s = settled_for_s};
    heuristics::JobModel model;
    model.curve = before;
    model.later = after;
    model.later_from_s = kSettled_s + settled_for_s;
    model.warm_up_steps = 1;
    model.cold_start_s = 1;
    model.batch.per_worker = 32;
    model.max_workers = model.slots_per_host = kMaxWorkers;
    model.samples_total = 1e12;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      const double end_s = model.later_from_s + kTimeToFollow_s;
      const auto run =
          run_closed_loop(*policy, model, {.start_workers = 4, .view_every_s = 1, .seed = seed, .longest_s = end_s});
      std::size_t changes = 0;
      for (const auto& change : run.changes) changes += change.at_s >= model.later_from_s;
      followed.most_changes = std::max(followed.most_changes, changes);
      followed.wrong += loss(after, run.size_at(end_s)) > 0.05;
      ++followed.runs;
    }
    all.push_back(followed);
  }
  return all;
}

struct ChangingJob {
  const char* name;
  heuristics::ThroughputCurve before;
  heuristics::ThroughputCurve after;
};

inline std::vector<ChangingJob> jobs_slower_alike() {
  const auto curve = curve_of(0.002, 0.004);
  return {{"all-0.4", curve, scaled(curve, 0.4)},
          {"all-0.7", curve, scaled(curve, 0.7)},
          {"all-1.4", curve, scaled(curve, 1.4)}};
}

inline std::vector<ChangingJob> jobs_that_scale_differently() {
  return {{"slower-network", curve_of(0.002, 0.004), curve_of(0.008, 0.016)},
          {"faster-network", curve_of(0.002, 0.012), curve_of(0.002, 0.003)},
          {"much-slower-network", curve_of(0.001, 0.0005), curve_of(0.01, 0.02)}};
}

}  // namespace elastictrain::test

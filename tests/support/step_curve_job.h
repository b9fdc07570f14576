// A simulated job whose steps take a known time at each size, for searches that look for the best one.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "heuristics/simulate/job_model.h"

namespace elastictrain::testing {

inline constexpr std::uint32_t kMostOfStepCurve = 8;  // workers

// `rest_s`: what a step of so many workers takes beside the computation.
inline heuristics::JobModel job_with(double compute_s, const std::function<double(std::uint32_t)>& rest_s) {
  std::vector<std::pair<std::uint32_t, double>> points;
  for (std::uint32_t n = 1; n <= kMostOfStepCurve; ++n) points.emplace_back(n, 16.0 * n / (compute_s + rest_s(n)));
  heuristics::JobModel model;
  model.curve = heuristics::ThroughputCurve(points);
  model.noise = 0.03;
  model.batch.per_worker = 16;
  model.max_workers = model.slots_per_host = kMostOfStepCurve;
  model.warm_up_steps = 2;
  model.cold_start_s = 1.5;
  model.samples_total = 1e9;
  model.price_per_worker_hour = 3.6;
  return model;
}

}  // namespace elastictrain::testing

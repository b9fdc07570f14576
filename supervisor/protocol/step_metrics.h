// Purpose: measurements of a worker in each step, and the list of them. Code that sends, averages or shows these
// figures goes through the list, so a new one is an entry here, a place that measures it, and for policies a field of
// their view (README.md has the recipe). Plain data, pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace elastictrain::protocol {

// Of one step, or means over some steps.
struct StepMetrics {
  double step_us = 0;
  double data_wait_us = 0;
  double compute_us = 0;  // before the collective
  double communicate_us = 0;
  double update_us = 0;   // after the last collective
  double sent_bytes = 0;  // over sockets of the data plane
  double received_bytes = 0;
};

enum class StepUnit : unsigned char { kMicroseconds, kBytes };

struct StepMetric {
  std::string_view name;  // without its unit
  StepUnit unit = StepUnit::kMicroseconds;
  double StepMetrics::*value = nullptr;
};

inline constexpr std::array kStepMetrics{
    StepMetric{"step", StepUnit::kMicroseconds, &StepMetrics::step_us},
    StepMetric{"data_wait", StepUnit::kMicroseconds, &StepMetrics::data_wait_us},
    StepMetric{"compute", StepUnit::kMicroseconds, &StepMetrics::compute_us},
    StepMetric{"communicate", StepUnit::kMicroseconds, &StepMetrics::communicate_us},
    StepMetric{"update", StepUnit::kMicroseconds, &StepMetrics::update_us},
    StepMetric{"sent", StepUnit::kBytes, &StepMetrics::sent_bytes},
    StepMetric{"received", StepUnit::kBytes, &StepMetrics::received_bytes},
};
static_assert(sizeof(StepMetrics) == kStepMetrics.size() * sizeof(double), "a metric is missing in the list");

constexpr void add(StepMetrics& sum, const StepMetrics& more, double weight = 1) {
  for (const StepMetric& metric : kStepMetrics) sum.*metric.value += weight * more.*metric.value;
}

// 0 if there are no steps.
constexpr StepMetrics mean(const StepMetrics& sum, std::size_t steps) {
  StepMetrics mean;
  for (const StepMetric& metric : kStepMetrics) {
    if (steps != 0) mean.*metric.value = sum.*metric.value / static_cast<double>(steps);
  }
  return mean;
}

// The mean of two means, of which `newer` has this part of the steps.
constexpr StepMetrics blend(const StepMetrics& older, const StepMetrics& newer, double part) {
  StepMetrics both = older;
  for (const StepMetric& metric : kStepMetrics) {
    both.*metric.value += (newer.*metric.value - older.*metric.value) * part;
  }
  return both;
}

}  // namespace elastictrain::protocol

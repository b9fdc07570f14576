#include "heuristics/autoscale/size_after_change.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace elastictrain::heuristics {
namespace {

constexpr double kHidden = 0.02;  // a difference that the noise of the parts hides

// The smallest of the sizes that may be best, because fewer workers are there at once; 0 for none.
std::uint32_t smallest_good_of(const std::vector<std::pair<std::uint32_t, double>>& values) {
  if (values.empty()) return 0;
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const double best = std::max_element(values.begin(), values.end(), less)->second;
  return std::find_if(values.begin(), values.end(), [&](const auto& size) { return size.second >= best - kHidden; })
      ->first;
}

}  // namespace

std::uint32_t size_after_change(const JobView& job, const SearchLimits& limits, const Objective& value,
                                const SearchState& state) {
  if (!state.parts.is_known() || !state.changed_parts.is_known()) return 0;
  const auto share = [&](double workers) {
    return static_cast<double>(global_batch(job.batch, static_cast<std::size_t>(workers))) / workers;
  };
  const double compute_s = state.parts.compute_s() / share(state.settled_size);  // for a sample
  std::vector<std::pair<std::uint32_t, double>> rests;                           // by size, in seconds
  for (const auto& [workers, size] : state.table.sizes()) {
    if (workers < limits.min || workers > limits.max || size.recent_steps < kMinSteps) continue;
    const double step_s = share(workers) * workers * std::exp(-size.log_rate);
    rests.emplace_back(workers, std::max(0.0, step_s - compute_s * share(workers)));
  }
  if (limits.min == 1 && !rests.empty() && rests.front().first > 1) rests.insert(rests.begin(), {1, 0});
  const double slower = state.changed_parts.compute_s() / state.parts.compute_s();
  const double longer = state.changed_parts.rest_s() / state.parts.rest_s();
  std::vector<std::pair<std::uint32_t, double>> values;
  for (std::size_t i = 0; i + 1 < rests.size(); ++i) {
    const auto [low, low_s] = rests[i];
    const auto [high, high_s] = rests[i + 1];
    const bool is_last = i + 2 == rests.size();  // a little is known of what is beyond
    const std::uint32_t last = is_last ? std::min(limits.max, 2 * high) : high;
    for (std::uint32_t workers = low; workers <= last; ++workers) {
      const double rest_s = std::max(0.0, low_s + (high_s - low_s) * (workers - low) / (high - low));
      const double step_s = slower * compute_s * share(workers) + longer * rest_s;
      values.emplace_back(workers, value(workers, std::log(share(workers) * workers / step_s)));
    }
  }
  return smallest_good_of(values);
}

}  // namespace elastictrain::heuristics

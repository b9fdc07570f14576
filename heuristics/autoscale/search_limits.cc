#include "heuristics/autoscale/search_limits.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "heuristics/autoscale/throughput_table.h"

namespace elastictrain::heuristics {
namespace {

constexpr double kUnknownStart_s = 30;  // assumed until a worker has started
// By which an improvement is larger that is worth a look after a change; doubled with every look after the second.
constexpr double kAfterChange = 4;
// A job that lasts for more probes than the usual one looks for smaller improvements, down to a tenth, and measures for
// up to three times as long.
constexpr double kProbesOfUsualJob = 200;
constexpr double kMaxPatience = 10;
constexpr double kLongestProbe = 3;  // of the usual number of steps
constexpr double kPatientMoves = 4;  // after which the least improvement doubles with each, up to the usual one
constexpr double kUsualNoise = 0.1;  // of a step, for which the usual number of steps is enough
// Changes of a search: some, and one for each time that the range of sizes doubles.
constexpr double kMovesOfTwoSizes = 3;
constexpr double kFewDoublings = 3;
constexpr double kMovesOfFar = 2;  // and more for each further one: there is room for several cliffs
constexpr double kMovesWithoutEnd = 6;
constexpr double kLeastInVain = 2;        // and the last probe, which is counted when the next one is chosen
constexpr double kNoEndHorizon_s = 3600;  // jobs that are worth a policy take an hour and more
constexpr double kProbesOfLongJob = 150;  // with joiners

double rest_s(const ClusterView& view, const JobView& job, double rate) {
  if (job.samples_total > 0 && rate > 0) return std::max(0.0, job.samples_total - job.samples_done) / rate;
  // Without a known end, a job is expected to run for as long as it has run so far, and for an hour at least.
  return std::max(view.now_s, kNoEndHorizon_s);
}

double first_probe_s(const JobView& job, const SearchState& state) {
  const double start_s = job.spares > 0 ? 0 : job.start_s > 0 ? job.start_s : kUnknownStart_s;
  const auto rate = state.table.log_rate(job.workers);
  return start_s + (rate ? kEnoughSteps * static_cast<double>(job.global_batch) * std::exp(-rate->value) : 0);
}

// The factor by which smaller improvements and longer measurements pay, because the job is long. After a change the
// job may change again.
double patience_of(const SearchLimits& limits, const SearchState& state) {
  if (state.follows_change) return 1;
  return std::clamp(limits.horizon_s / (kProbesOfUsualJob * limits.probe_s), 1.0, kMaxPatience);
}

// Probes in succession without a gain: of few sizes a quarter shows that the others are as good.
double most_in_vain(const SearchLimits& limits) {
  return std::max(kLeastInVain, (limits.max - limits.min + 1) / 4.0);
}

// What an expected improvement has to reach rises with the changes, because those before did not bring theirs.
// `in_vain`: probes beyond those that are enough; below 0: not enough yet.
double least_improvement(const SearchSettings& settings, double patience, double in_vain, const SearchState& state) {
  const double usual = settings.tolerance / 4;
  if (state.follows_change) return usual * kAfterChange * std::exp2(std::max(0.0, state.moves - 2.0));
  if (in_vain >= 0) return settings.tolerance * std::exp2(in_vain);
  return usual * std::min(1.0, std::exp2(std::max(0.0, state.moves - kPatientMoves)) / patience);
}

// With the way back to the best size.
double most_moves(const JobView& job, const SearchLimits& limits) {
  const double doublings = std::log2(static_cast<double>(limits.max) / limits.min);
  const double of_range = kMovesOfTwoSizes + doublings + kMovesOfFar * std::max(0.0, doublings - kFewDoublings);
  return job.samples_total > 0 ? of_range : std::min(of_range, kMovesWithoutEnd);
}

}  // namespace

SearchLimits search_limits(const SearchSettings& settings, const ClusterView& view, const JobView& job,
                           const SearchState& state) {
  SearchLimits limits;
  limits.batch = job.batch;
  limits.min = std::max(job.min_workers, 1U);
  limits.max = std::min(job.max_workers, max_workers(job.batch));
  if (job.reachable != 0) limits.max = std::min(limits.max, job.reachable);
  if (state.ceiling != 0) limits.max = std::min(limits.max, state.ceiling);
  limits.max = std::max(limits.max, limits.min);
  for (const auto& host : view.hosts) limits.host_slots = std::max(limits.host_slots, host.slots);
  limits.probe_s = state.probe_s > 0 ? state.probe_s : first_probe_s(job, state);
  const auto rate = state.table.log_rate(job.workers);
  limits.horizon_s = rest_s(view, job, rate ? std::exp(rate->value) : 0);
  limits.is_long = !state.follows_change && limits.horizon_s > kProbesOfLongJob * first_probe_s(job, state);
  const double patience = patience_of(limits, state);
  const double in_vain = state.in_vain - most_in_vain(limits);
  limits.in_vain = in_vain >= 0;
  limits.least = least_improvement(settings, patience, in_vain, state);
  const double noisier = std::clamp(std::pow(state.table.robust_deviation() / kUsualNoise, 2), 1.0, patience);
  limits.max_steps = std::min(kMaxSteps * noisier, kMemorySteps);
  limits.may_probe = state.moves + 2 <= most_moves(job, limits);
  limits.noise = state.table.robust_deviation() / std::sqrt(kEnoughSteps / 2 * std::min(patience, kLongestProbe));
  return limits;
}

std::vector<Measured> measured_sizes(const SearchState& state, const Objective& value, const SearchLimits& limits) {
  std::vector<NoisyRate> rates;
  for (const auto& [workers, size] : state.table.sizes()) {
    if (workers < limits.min || workers > limits.max || size.recent_steps < kMinSteps) continue;
    rates.push_back({workers, *state.table.log_rate(workers)});
  }
  const auto smooth = smoothed(rates, limits.host_slots > 1 ? limits.host_slots : 0);
  std::vector<Measured> all;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const std::uint32_t workers = rates[i].workers;
    Measured size{workers, smooth[i].value, value(workers, smooth[i].value), smooth[i].deviation};
    const auto parts = state.size_parts.find(workers);
    if (parts != state.size_parts.end() && parts->second.has_compute()) {
      size.parts = parts_of(limits.batch, workers, size.log_rate, parts->second.rest_share());
    }
    all.push_back(size);
  }
  return all;
}

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

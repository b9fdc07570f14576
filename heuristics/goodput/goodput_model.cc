#include "heuristics/goodput/goodput_model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "heuristics/batch_plan.h"
#include "heuristics/fit/least_squares.h"

namespace elastictrain::heuristics {
namespace {

constexpr double kMin = 1e-8;
constexpr double kMax = 1e5;
constexpr double kMaxOverlap = 10;
constexpr int kBatches = 50;
constexpr double kOptimism = 0.2;  // weight of exchange that no measurement tells from computation

// Logarithms of the six times, then g itself.
Vector encoded(const GoodputParameters& p) {
  return {std::log(p.compute_s), std::log(p.compute_s_per_sample), std::log(p.net_s), std::log(p.net_s_per_worker),
          std::log(p.local_s),   std::log(p.local_s_per_worker),   p.overlap};
}

GoodputParameters decoded(const Vector& x) {
  return {.compute_s = std::exp(x[0]),
          .compute_s_per_sample = std::exp(x[1]),
          .net_s = std::exp(x[2]),
          .net_s_per_worker = std::exp(x[3]),
          .local_s = std::exp(x[4]),
          .local_s_per_worker = std::exp(x[5]),
          .overlap = x[6]};
}

struct Seen {
  bool several_hosts = false, several_hosts_more = false, one_host = false, one_host_more = false,
       several_batches = false;
  bool parts = false;  // what of a step is computation: it was measured, or one worker was alone
  double mean_gradient_s = 0;
};

Seen seen_in(const std::vector<GoodputSample>& samples) {
  Seen seen;
  std::set<double> batches;
  std::set<std::uint32_t> sizes;
  double shortest_s = kMax;  // of one batch, the most that a gradient can take
  for (const auto& sample : samples) {
    const bool spread = sample.place.hosts > 1;
    const bool more = sample.place.workers > 2;
    seen.several_hosts |= spread;
    seen.several_hosts_more |= spread && more;
    seen.one_host |= !spread && sample.place.workers > 1;
    seen.one_host_more |= !spread && more;
    seen.parts |= sample.compute_s > 0 || sample.place.workers == 1;
    batches.insert(sample.local_batch);
    sizes.insert(sample.place.workers);
    const double computed_s = sample.compute_s > 0 ? sample.compute_s : sample.step_s;
    shortest_s = std::min(shortest_s, computed_s);
    seen.mean_gradient_s += computed_s / static_cast<double>(samples.size());
  }
  seen.several_batches = batches.size() > 1;
  if (!seen.several_batches) seen.mean_gradient_s = std::min(seen.mean_gradient_s, shortest_s);
  if (!seen.parts && sizes.size() == 1) seen.several_hosts = seen.one_host = false;
  if (!seen.several_hosts) seen.several_hosts_more = false;
  if (!seen.one_host) seen.one_host_more = false;
  return seen;
}

// Unknowns without observations are fixed by their bounds.
Bounds bounds_for(const Seen& seen) {
  Bounds bounds{Vector(7, std::log(kMin)), Vector(7, std::log(kMax))};
  bounds.lower[6] = 1;
  bounds.upper[6] = seen.several_hosts || seen.one_host ? kMaxOverlap : 1;
  const auto pin = [&](std::size_t i, double value) { bounds.lower[i] = bounds.upper[i] = value; };
  if (!seen.several_batches) pin(0, std::log(std::clamp(seen.mean_gradient_s / 2, kMin, kMax)));
  if (!seen.several_hosts) pin(2, std::log(kMin));
  if (!seen.several_hosts_more) pin(3, std::log(kMin));
  if (!seen.one_host) pin(4, std::log(kMin));
  if (!seen.one_host_more) pin(5, std::log(kMin));
  return bounds;
}

// How much longer than its computation a step is, as a mean of logarithms.
double exchange(const GoodputParameters& p, const std::vector<GoodputSample>& samples) {
  double sum = 0;
  for (const auto& sample : samples)
    sum += std::log(step_s(p, sample.place, sample.local_batch) / gradient_s(p, sample.local_batch));
  return sum / static_cast<double>(samples.size());
}

Vector squares(const GoodputParameters& p, const std::vector<GoodputSample>& samples, const Seen& seen) {
  const double each = 1 / std::sqrt(static_cast<double>(samples.size()));
  Vector all;
  for (const auto& sample : samples) {
    all.push_back(each * std::log(step_s(p, sample.place, sample.local_batch) / sample.step_s));
    all.push_back(sample.compute_s > 0 ? each * std::log(gradient_s(p, sample.local_batch) / sample.compute_s) : 0);
  }
  all.push_back(std::sqrt(1e-3) * (p.overlap - 1));
  all.push_back(0.1 * p.net_s_per_worker / p.net_s);
  all.push_back(0.1 * p.local_s_per_worker / p.local_s);
  if (!seen.parts) all.push_back(kOptimism * exchange(p, samples));
  return all;
}

// Three starting points: mostly fixed costs, mostly costs per sample, and both.
std::vector<GoodputParameters> starts_for(const std::vector<GoodputSample>& samples, const Seen& seen) {
  double mean_batch = 0;
  for (const auto& sample : samples) mean_batch += sample.local_batch / static_cast<double>(samples.size());
  std::vector<GoodputParameters> starts;
  for (const double share : {0.2, 0.5, 0.8}) {
    GoodputParameters start{.overlap = 1.5};
    start.compute_s = start.net_s = start.local_s = std::max(kMin, share * seen.mean_gradient_s);
    start.compute_s_per_sample = std::max(kMin, (1 - share) * seen.mean_gradient_s / mean_batch);
    start.net_s_per_worker = start.local_s_per_worker = std::max(kMin, 0.02 * seen.mean_gradient_s);
    starts.push_back(start);
  }
  return starts;
}

}  // namespace

double gradient_s(const GoodputParameters& p, double local_batch) {
  return p.compute_s + p.compute_s_per_sample * local_batch;
}

double network_s(const GoodputParameters& p, const GoodputPlace& place) {
  if (place.workers <= 1) return 0;
  const double more = std::max(static_cast<double>(place.workers) - 2, 0.0);
  return place.hosts > 1 ? p.net_s + p.net_s_per_worker * more : p.local_s + p.local_s_per_worker * more;
}

double step_s(const GoodputParameters& p, const GoodputPlace& place, double local_batch) {
  const double gradient = gradient_s(p, local_batch);
  const double network = network_s(p, place);
  const double larger = std::max(gradient, network);
  if (!(larger > 0)) return kMin;
  return larger * std::pow(1 + std::pow(std::min(gradient, network) / larger, p.overlap), 1 / p.overlap);
}

double throughput(const GoodputParameters& p, const GoodputPlace& place, double local_batch,
                  std::uint32_t accumulation) {
  const double sums = accumulation;
  return place.workers * local_batch * (sums + 1) / (sums * gradient_s(p, local_batch) + step_s(p, place, local_batch));
}

double fit_loss(const GoodputParameters& p, const std::vector<GoodputSample>& samples) {
  double steps = 0;
  double gradients = 0;
  double measured_gradients = 0;
  for (const auto& sample : samples) {
    steps += std::pow(std::log(step_s(p, sample.place, sample.local_batch) / sample.step_s), 2);
    if (!(sample.compute_s > 0)) continue;
    gradients += std::pow(std::log(gradient_s(p, sample.local_batch) / sample.compute_s), 2);
    ++measured_gradients;
  }
  const double errors = std::sqrt(steps / std::max<double>(1, static_cast<double>(samples.size()))) +
                        std::sqrt(gradients / std::max(1.0, measured_gradients));
  return errors + 1e-3 * std::pow(p.overlap - 1, 2) +
         1e-2 * (std::pow(p.net_s_per_worker / p.net_s, 2) + std::pow(p.local_s_per_worker / p.local_s, 2));
}

std::optional<GoodputParameters> fit_goodput(const std::vector<GoodputSample>& given,
                                             const std::optional<GoodputParameters>& before) {
  std::vector<GoodputSample> samples;
  std::copy_if(given.begin(), given.end(), std::back_inserter(samples), [](const GoodputSample& sample) {
    return sample.place.workers > 0 && sample.local_batch > 0 && sample.step_s > 0 && std::isfinite(sample.step_s);
  });
  if (samples.empty()) return std::nullopt;
  const Seen seen = seen_in(samples);
  const Bounds bounds = bounds_for(seen);
  // First a sum of squares, because it converges fast from a distance; then the objective itself.
  const auto loss = [&](const Vector& x) {
    const GoodputParameters p = decoded(x);
    return fit_loss(p, samples) + (seen.parts ? 0 : kOptimism * exchange(p, samples));
  };
  Vector nearest;
  for (const auto& start : before ? std::vector{*before} : starts_for(samples, seen)) {
    const auto found =
        least_squares([&](const Vector& x) { return squares(decoded(x), samples, seen); }, encoded(start), bounds);
    if (nearest.empty() || loss(found.at) < loss(nearest)) nearest = found.at;
  }
  const Minimum best = nelder_mead(loss, nearest, bounds, 0.1, 600);
  GoodputParameters p = decoded(best.at);
  p.net_s = std::max(p.net_s, 1.1 * p.local_s);
  p.net_s_per_worker = std::max(p.net_s_per_worker, 1.1 * p.local_s_per_worker);
  return p;
}

double statistical_efficiency(double noise_scale, double batch, double base_batch) {
  if (!(noise_scale > 0) || !(batch > 0) || !(base_batch > 0)) return 1;
  return adascale_gain(noise_scale, batch, base_batch) * base_batch / batch;
}

double goodput(const GoodputJob& job, const GoodputPlace& place, double local_batch, std::uint32_t accumulation) {
  const double global = place.workers * local_batch * (accumulation + 1.0);
  return throughput(job.parameters, place, local_batch, accumulation) *
         statistical_efficiency(job.noise_scale.value_or(0), global, job.base_batch);
}

GoodputChoice best_batch(const GoodputJob& job, const GoodputPlace& place) {
  const double workers = std::max(place.workers, 1U);
  const double fits = job.max_global == 0
                          ? job.max_local
                          : std::min<double>(job.max_local, static_cast<double>(job.max_global) / workers);
  const double max = std::max(fits, static_cast<double>(job.min_local));
  const double min = std::clamp(std::ceil(job.base_batch / workers), static_cast<double>(job.min_local), max);
  GoodputChoice best;
  for (int i = 0; i < kBatches; ++i) {
    const double batch = std::floor(min * std::pow(max / min, i / (kBatches - 1.0)) + 1e-9);
    const double value = goodput(job, place, batch);
    if (value > best.goodput) best = {static_cast<std::uint32_t>(batch), value};
    if (!job.noise_scale) break;
  }
  return best;
}

}  // namespace elastictrain::heuristics

#include "tests/bench/autoscale/rough.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <utility>

#include "heuristics/simulate/closed_loop.h"
#include "heuristics/simulate/figures.h"
#include "tests/bench/autoscale/experiments.h"
#include "tests/support/step_curve_job.h"

namespace elastictrain::bench {
namespace {

using namespace heuristics;
using testing::job_with;
using Rng = std::mt19937_64;

constexpr double kMostRegret = 0.03;
constexpr std::size_t kMostChanges = 6;

double between(Rng& rng, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(rng);
}

// A step of k workers takes so long that they make k^a times the samples of one.
JobModel power(Rng& rng) {
  const double compute_s = between(rng, 0.03, 0.15);
  const double exponent = between(rng, 0.1, 1);
  return job_with(compute_s, [=](std::uint32_t n) { return compute_s * (std::pow(n, 1 - exponent) - 1); });
}

// A size of two and one of two or three more workers are slow.
JobModel two_dips(Rng& rng) {
  const double compute_s = between(rng, 0.03, 0.15);
  const double each = compute_s * between(rng, 0, 0.06);
  const double first = compute_s * between(rng, 0.3, 2);
  const double second = compute_s * between(rng, 0.3, 2);
  const bool is_wide = between(rng, 0, 1) < 0.5;
  return job_with(compute_s, [=](std::uint32_t n) {
    return each * (n - 1) + (n == 2 ? first : n == 5 || n == 6 || (is_wide && n == 4) ? second : 0);
  });
}

// Odd sizes are slow.
JobModel sawtooth(Rng& rng) {
  const double compute_s = between(rng, 0.03, 0.15);
  const double each = compute_s * between(rng, 0, 0.3);
  const double odd = compute_s * between(rng, 0.1, 0.8);
  return job_with(compute_s, [=](std::uint32_t n) { return each * (n - 1) + (n > 1 && n % 2 == 1 ? odd : 0); });
}

// Hosts of four slots: a second one costs once.
JobModel host_border(Rng& rng) {
  const double compute_s = between(rng, 0.03, 0.15);
  const double each = compute_s * between(rng, 0, 0.2);
  const double border = compute_s * between(rng, 0.2, 3);
  JobModel model = job_with(compute_s, [=](std::uint32_t n) { return each * (n - 1) + (n > 4 ? border : 0); });
  model.slots_per_host = 4;
  return model;
}

JobModel noisy(Rng& rng) {
  JobModel model = power(rng);
  model.noise = between(rng, 0.1, 0.4);
  return model;
}

JobModel lasting_noise(Rng& rng) {
  JobModel model = power(rng);
  model.noise = between(rng, 0.05, 0.2);
  model.noise_correlation = between(rng, 0.5, 0.9);
  return model;
}

JobModel outliers(Rng& rng) {
  JobModel model = power(rng);
  model.outlier_share = between(rng, 0.01, 0.06);
  model.outlier_times = between(rng, 4, 20);
  return model;
}

void add_runs(const Policy& policy, const Loss& loss, const JobModel& model, std::uint64_t seed, Rough& rough) {
  const double best = best_fixed_size(model, loss).loss;
  for (const std::uint32_t start : {1U, 2U, 8U}) {
    const LoopSettings settings{.start_workers = start, .view_every_s = 0.5, .seed = seed + start, .longest_s = 600};
    const auto run = run_closed_loop(policy, model, settings);
    const double regret = fixed_size(model, run.segments.back().workers, loss).loss / best - 1;
    ++rough.runs;
    rough.off += regret > kMostRegret ? 1 : 0;
    rough.moved += run.changes.size() > kMostChanges ? 1 : 0;
    rough.mean_regret += (regret - rough.mean_regret) / rough.runs;
    rough.worst_regret = std::max(rough.worst_regret, regret);
    rough.most_changes = std::max(rough.most_changes, run.changes.size());
  }
}

}  // namespace

std::vector<Rough> rough_curves(std::uint64_t seed, int curves) {
  const std::vector<std::pair<std::string, JobModel (*)(Rng&)>> kinds{
      {"power", power}, {"two-dips", two_dips},           {"sawtooth", sawtooth}, {"host-border", host_border},
      {"noisy", noisy}, {"lasting-noise", lasting_noise}, {"outliers", outliers}};
  const auto efficiency = make_policy("efficiency", {});
  const auto cost = make_policy("cost", {{"utility", std::string("linear:40,10000")}, {"price_per_worker_hour", 3.6}});
  std::vector<Rough> all;
  for (const auto& [kind, draw] : kinds) {
    Rough by_efficiency{.kind = kind, .policy = "efficiency"};
    Rough by_cost{.kind = kind, .policy = "cost"};
    Rng rng(seed);
    for (int i = 0; i < curves; ++i) {
      JobModel model = draw(rng);
      model.end_is_known = i % 2 == 0;
      const std::uint64_t of_run = rng();
      add_runs(*efficiency, efficiency_loss(0.5), model, of_run, by_efficiency);
      add_runs(*cost, cost_loss(Utility::linear(40, 10000), 3.6), model, of_run, by_cost);
    }
    all.push_back(by_efficiency);
    all.push_back(by_cost);
  }
  return all;
}

}  // namespace elastictrain::bench

#include "tests/bench/autoscale/experiments.h"

#include <algorithm>
#include <stdexcept>

#include "heuristics/registry/registry.h"

namespace elastictrain::bench {

using namespace heuristics;

std::unique_ptr<Policy> make_policy(const std::string& name, const Parameters& given) {
  const PolicySpec* spec = find_policy(name);
  if (!spec) throw std::runtime_error("no policy " + name);
  const auto checked = check_parameters(*spec, given);
  if (!checked.problem.empty()) throw std::runtime_error(checked.problem);
  return spec->make(checked.parameters);
}

JobModel job_on(const RealCurve& curve, const Loss& loss, double hours) {
  JobModel model;
  model.curve = curve.curve;
  model.batch = curve.batch;
  model.slots_per_host = curve.slots_per_host;
  model.max_workers = curve.curve.last_size();
  model.samples_total = 1;
  model.samples_total = model.rate(best_fixed_size(model, loss).workers, 0) * hours * 3600;
  return model;
}

Regret regret_on(const RealCurve& curve, const Policy& policy, const Loss& loss, const RegretSetup& setup) {
  RealCurve used = curve;
  if (setup.monotone) used.curve = curve.curve.monotone();
  JobModel model = job_on(used, loss, setup.hours);
  model.noise = setup.noise;
  model.noise_correlation = setup.noise_correlation;
  Regret result;
  result.curve = curve.name;
  result.best = best_fixed_size(model, loss).workers;
  result.worst = -1;
  int runs = 0;
  for (std::uint32_t start = 1; start <= model.max_workers; start *= 2) {
    for (int seed = 1; seed <= setup.seeds; ++seed, ++runs) {
      LoopSettings settings;
      settings.start_workers = start;
      settings.seed = static_cast<std::uint64_t>(seed) * 1000 + start;
      const Trajectory trajectory = run_closed_loop(policy, model, settings);
      const Figures figures = figures_of(trajectory, model, loss);
      result.mean += figures.regret;
      result.settled_share += figures.settled_s / trajectory.job_s;
      const auto hours_from = [&](double since_s) { return std::max(1.0, (trajectory.job_s - since_s) / 3600); };
      result.changes_per_hour =
          std::max(result.changes_per_hour, figures.changes_once_said / hours_from(trajectory.said_settled_s));
      result.comparisons_per_hour =
          std::max(result.comparisons_per_hour, figures.changes_after_settling / hours_from(figures.settled_s));
      if (figures.regret > result.worst) {
        result.worst = figures.regret;
        result.worst_start = start;
        result.worst_end = figures.last_size;
      }
    }
  }
  result.mean /= runs;
  result.settled_share /= runs;
  return result;
}

Savings savings_on(const JobModel& model, const Policy& policy, const Loss& loss, std::uint32_t from, std::uint32_t by,
                   std::uint32_t to, int seeds) {
  Savings mean;
  const FixedSize best = best_fixed_size(model, loss);
  int runs = 0;
  for (std::uint32_t start = from; start <= to; start += by) {
    const FixedSize kept = fixed_size(model, start, loss);
    for (int seed = 1; seed <= seeds; ++seed, ++runs) {
      LoopSettings settings;
      settings.start_workers = start;
      settings.view_every_s = 1;
      settings.seed = static_cast<std::uint64_t>(seed) * 1000 + start;
      const Trajectory trajectory = run_closed_loop(policy, model, settings);
      const Figures figures = figures_of(trajectory, model, loss);
      const double time = 1 - trajectory.job_s / kept.job_s;
      const double workers = 1 - trajectory.worker_seconds / kept.worker_seconds;
      mean.best_job_time += 1 - best.job_s / kept.job_s;
      mean.best_worker_seconds += 1 - best.worker_seconds / kept.worker_seconds;
      mean.job_time += time;
      mean.worker_seconds += workers;
      mean.job_time_max = std::max(mean.job_time_max, time);
      mean.worker_seconds_max = std::max(mean.worker_seconds_max, workers);
      mean.settled_s += figures.settled_s;
      mean.settled_s_max = std::max(mean.settled_s_max, figures.settled_s);
      mean.settled_share += figures.settled_s / trajectory.job_s;
      mean.wasted += figures.wasted_worker_seconds;
      mean.job_s += trajectory.job_s;
    }
  }
  for (double* sum : {&mean.best_job_time, &mean.best_worker_seconds, &mean.job_time, &mean.worker_seconds,
                      &mean.settled_s, &mean.settled_share, &mean.wasted, &mean.job_s}) {
    *sum /= runs;
  }
  return mean;
}

LongRun long_run_on(const JobModel& model, const Policy& policy, const Loss& loss, std::uint32_t from, std::uint32_t by,
                    std::uint32_t to, int seeds) {
  LongRun found;
  const double best = best_fixed_size(model, loss).loss;
  for (std::uint32_t start = from; start <= to; start += by) {
    for (int seed = 1; seed <= seeds; ++seed, ++found.runs) {
      LoopSettings settings;
      settings.start_workers = start;
      settings.seed = static_cast<std::uint64_t>(seed) * 1000 + start;
      const Figures figures = figures_of(run_closed_loop(policy, model, settings), model, loss);
      const double end = fixed_size(model, figures.last_size, loss).loss / best - 1;
      found.regret += figures.regret;
      found.worst_end = std::max(found.worst_end, end);
      found.ends_off += end > 0.02;
    }
  }
  found.regret /= found.runs;
  return found;
}

JobModel cifar_like() {
  JobModel model;
  std::vector<std::pair<std::uint32_t, double>> points;
  for (std::uint32_t workers = 1; workers <= 60; ++workers) {
    const double step_s = 0.11 * (1.824 / workers + 0.696 + 0.0095 * workers);
    points.emplace_back(workers, 1024 / step_s);
  }
  model.curve = ThroughputCurve(points);
  model.batch.per_worker = 256;
  model.batch.max_global = 1024;
  model.samples_total = 200 * 50000.0;
  model.min_workers = 4;
  model.max_workers = 60;
  model.cold_start_s = 7;
  return model;
}

JobModel imagenet_like() {
  JobModel model;
  model.curve = talk_curve().curve;
  model.batch.per_worker = 128;
  model.batch.max_global = 8192;
  model.samples_total = 5 * 1281167.0;
  model.min_workers = 4;
  model.max_workers = 64;
  model.slots_per_host = 8;
  model.cold_start_s = 15;
  return model;
}

}  // namespace elastictrain::bench

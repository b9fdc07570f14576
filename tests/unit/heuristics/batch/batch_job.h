// Purpose: a job in a closed loop with a policy that may change workers and batch: step times and the noise scale are
// functions of a test.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "heuristics/batch_plan.h"
#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics::testing {

struct BatchJob {
  std::function<double(std::uint32_t, double)> step_s;                     // of (workers, samples of each)
  std::function<double(double)> noise_scale = [](double) { return 0.0; };  // at so many samples
  double noise = 0;                                                        // of a step's time, lognormal
  double change_s = 10;                                                    // until a change of size is complete
  std::uint32_t startable = UINT32_MAX;                                    // a change to more workers is never complete
  double view_every_s = 10;
  double price_per_worker_hour = 1;
  std::uint32_t slots_per_host = 1;
  JobView job;
};

struct BatchRun {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> settings;  // (workers, samples of each), in order
  Reason last;
  JobView job;
  double now_s = 0;
  int views = 0;
};

// Until the job's samples are done, or `longest_s`.
inline BatchRun run_batch_job(const Policy& policy, BatchJob model, double longest_s, std::uint64_t seed = 1) {
  BatchRun run{.job = model.job};
  JobView& job = run.job;
  job.name = "job";
  job.target = job.workers;
  if (job.reachable == 0) job.reachable = job.max_workers;
  Rng rng(seed);
  std::mt19937_64 noise_rng(seed + 1000);
  std::normal_distribution<double> normal(0, 1);
  const auto state = policy.initial_state();
  double change_at_s = 0;
  run.settings.emplace_back(job.workers, job.batch.per_worker);
  while ((job.samples_total == 0 || job.samples_done < job.samples_total) && run.now_s < longest_s) {
    if (job.changing && run.now_s >= change_at_s) {
      job.workers = job.target;
      job.changing = false;
      run.settings.emplace_back(job.workers, job.batch.per_worker);
    }
    job.global_batch = plan_batch(job.batch, job.workers).global;
    const auto global = static_cast<double>(job.global_batch);
    const double local = global / job.workers;
    Interval interval{.begin_s = run.now_s, .workers = job.workers, .global_batch = job.global_batch};
    double compute_s = 0;
    while (run.now_s < interval.begin_s + model.view_every_s) {
      const double factor = std::exp(model.noise * normal(noise_rng) - model.noise * model.noise / 2);
      compute_s += model.step_s(1, local) * factor;
      run.now_s += model.step_s(job.workers, local) * factor;
      ++interval.steps;
    }
    interval.end_s = run.now_s;
    interval.samples = interval.steps * job.global_batch;
    job.samples_done += static_cast<double>(interval.samples);
    job.steps_done += static_cast<double>(interval.steps);
    job.worker_seconds += interval.seconds() * job.workers;
    job.cost = job.worker_seconds * model.price_per_worker_hour / 3600;
    job.intervals = {interval};
    // Of gradients with G^2 = 1 and this noise scale, with the spread that so many steps leave.
    const double noise_scale = model.noise_scale(job.samples_done);
    const auto seen = [&](double batch) {
      return (1 + noise_scale / batch) *
             (1 + 0.02 * normal(noise_rng) / std::sqrt(static_cast<double>(interval.steps)));
    };
    job.norms = {.count = noise_scale > 0 && job.workers > 1 ? interval.steps : 0,
                 .local_square = seen(local),
                 .global_square = seen(global),
                 .local_batch = local,
                 .global_batch = global};
    ClusterView view{.now_s = run.now_s};
    for (std::uint32_t host = 0; host * model.slots_per_host < job.max_workers; ++host)
      view.hosts.push_back({.name = "h" + std::to_string(host),
                            .slots = model.slots_per_host,
                            .free_slots = 0,
                            .price_per_worker_hour = model.price_per_worker_hour});
    job.members.clear();
    for (std::uint32_t rank = 0; rank < job.workers; ++rank) {
      WorkerView member{.id = rank, .rank = rank, .host = rank / model.slots_per_host, .steps = interval.steps};
      member.compute_s = compute_s / static_cast<double>(interval.steps);
      member.step_s = interval.seconds() / static_cast<double>(interval.steps);
      job.members.push_back(member);
    }
    view.jobs = {job};
    const JobDecision decision = policy.decide(view, *state, rng).jobs.at(0);
    ++run.views;
    run.last = decision.reason;
    if (decision.per_worker_batch && *decision.per_worker_batch != job.batch.per_worker) {
      job.batch.per_worker = *decision.per_worker_batch;
      if (!decision.workers || *decision.workers == job.workers)
        run.settings.emplace_back(job.workers, job.batch.per_worker);
    }
    if (decision.workers && *decision.workers != job.target) {
      job.target = *decision.workers;
      job.changing = job.target != job.workers;
      change_at_s = job.target > model.startable ? INFINITY : run.now_s + model.change_s;
    }
  }
  return run;
}

inline std::unique_ptr<Policy> make_policy(const PolicySpec& spec, const Parameters& given = {}) {
  Parameters complete;
  for (const auto& parameter : spec.parameters) complete[parameter.name] = parameter.standard;
  for (const auto& [name, value] : given) complete[name] = value;
  return spec.make(complete);
}

}  // namespace elastictrain::heuristics::testing

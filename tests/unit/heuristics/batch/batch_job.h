// Purpose: a job in a closed loop with a policy that may change workers and batch. Step times and the noise scale are
// functions of a test.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
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

class BatchLoop {
 public:
  BatchLoop(const Policy& policy, BatchJob model, std::uint64_t seed)
      : policy_(policy), model_(std::move(model)), state_(policy.initial_state()), rng_(seed), noise_rng_(seed + 1000) {
    run_.job = model_.job;
    run_.job.name = "job";
    run_.job.target = run_.job.workers;
    if (run_.job.reachable == 0) run_.job.reachable = run_.job.max_workers;
    note();
  }

  BatchRun run(double longest_s) {
    const JobView& job = run_.job;
    while ((job.samples_total == 0 || job.samples_done < job.samples_total) && run_.now_s < longest_s) {
      if (job.changing && run_.now_s >= change_at_s_) arrive();
      steps();
      const JobDecision decision = policy_.decide(view(), *state_, rng_).jobs.at(0);
      ++run_.views;
      run_.last = decision.reason;
      carry_out(decision);
    }
    return run_;
  }

 private:
  void note() { run_.settings.emplace_back(run_.job.workers, run_.job.batch.per_worker); }

  void arrive() {
    run_.job.workers = run_.job.target;
    run_.job.changing = false;
    note();
  }

  // All until the next view.
  void steps() {
    JobView& job = run_.job;
    job.global_batch = plan_batch(job.batch, job.workers).global;
    const double local = static_cast<double>(job.global_batch) / job.workers;
    Interval interval{.begin_s = run_.now_s, .workers = job.workers, .global_batch = job.global_batch};
    compute_s_ = 0;
    while (run_.now_s < interval.begin_s + model_.view_every_s) {
      const double factor = std::exp(model_.noise * normal_(noise_rng_) - model_.noise * model_.noise / 2);
      compute_s_ += model_.step_s(1, local) * factor;
      run_.now_s += model_.step_s(job.workers, local) * factor;
      ++interval.steps;
    }
    interval.end_s = run_.now_s;
    interval.samples = interval.steps * job.global_batch;
    compute_s_ /= static_cast<double>(interval.steps);
    job.samples_done += static_cast<double>(interval.samples);
    job.steps_done += static_cast<double>(interval.steps);
    job.worker_seconds += interval.seconds() * job.workers;
    job.cost = job.worker_seconds * model_.price_per_worker_hour / 3600;
    job.intervals = {interval};
    measure_norms(local, interval.steps);
  }

  // For gradients with G^2 = 1 and the job's noise scale, with the variance after that number of steps.
  void measure_norms(double local, std::uint64_t steps) {
    JobView& job = run_.job;
    const double noise_scale = model_.noise_scale(job.samples_done);
    const auto seen = [&](double batch) {
      return (1 + noise_scale / batch) * (1 + 0.02 * normal_(noise_rng_) / std::sqrt(static_cast<double>(steps)));
    };
    job.norms = {};
    if (noise_scale <= 0 || job.workers < 2) return;
    const auto global = static_cast<double>(job.global_batch);
    job.norms = {.count = steps,
                 .local_square = seen(local),
                 .global_square = seen(global),
                 .local_batch = local,
                 .global_batch = global};
  }

  ClusterView view() {
    JobView& job = run_.job;
    ClusterView view{.now_s = run_.now_s};
    for (std::uint32_t host = 0; host * model_.slots_per_host < job.max_workers; ++host)
      view.hosts.push_back({.name = "h" + std::to_string(host),
                            .slots = model_.slots_per_host,
                            .price_per_worker_hour = model_.price_per_worker_hour});
    job.members.clear();
    for (std::uint32_t rank = 0; rank < job.workers; ++rank) {
      WorkerView member{.id = rank, .rank = rank, .host = rank / model_.slots_per_host, .steps = 1};
      member.compute_s = compute_s_;
      job.members.push_back(member);
    }
    view.jobs = {job};
    return view;
  }

  void carry_out(const JobDecision& decision) {
    JobView& job = run_.job;
    const bool resizes = decision.workers && *decision.workers != job.target;
    if (decision.per_worker_batch && *decision.per_worker_batch != job.batch.per_worker) {
      job.batch.per_worker = *decision.per_worker_batch;
      if (!resizes) note();
    }
    if (!resizes) return;
    job.target = *decision.workers;
    job.changing = job.target != job.workers;
    change_at_s_ = job.target > model_.startable ? INFINITY : run_.now_s + model_.change_s;
  }

  const Policy& policy_;
  BatchJob model_;
  std::unique_ptr<PolicyState> state_;
  Rng rng_;
  std::mt19937_64 noise_rng_;
  std::normal_distribution<double> normal_{0, 1};
  BatchRun run_;
  double change_at_s_ = 0;
  double compute_s_ = 0;
};

// Until the job's samples are done, or `longest_s`.
inline BatchRun run_batch_job(const Policy& policy, BatchJob model, double longest_s, std::uint64_t seed = 1) {
  return BatchLoop(policy, std::move(model), seed).run(longest_s);
}

inline std::unique_ptr<Policy> make_policy(const PolicySpec& spec, const Parameters& given = {}) {
  Parameters complete;
  for (const auto& parameter : spec.parameters) complete[parameter.name] = parameter.default_value;
  for (const auto& [name, value] : given) complete[name] = value;
  return spec.make(complete);
}

}  // namespace elastictrain::heuristics::testing

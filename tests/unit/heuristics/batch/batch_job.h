// Purpose: a job in a closed loop with a policy that may change workers and batch. Step times and the noise scale are
// functions of a test. The views are made by the observer of a live run, from heartbeats and a view of the run, so that
// a policy does not get here what it lacks there.
#pragma once

#include <algorithm>
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
#include "supervisor/policy/observer.h"

namespace elastictrain::heuristics::testing {

struct BatchJob {
  std::function<double(std::uint32_t, double)> step_s;                     // of (workers, samples of each)
  std::function<double(double)> noise_scale = [](double) { return 0.0; };  // at so many samples
  bool reports_halves = true;                                              // while one worker trains
  double norm_noise = 0.02;                                                // of a step's squared norms, relative
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
  std::vector<GoodputAt> goodput;  // as it was said last
  JobView job;
  double now_s = 0;
  int views = 0;
};

class BatchLoop {
 public:
  BatchLoop(const Policy& policy, BatchJob model, std::uint64_t seed)
      : policy_(policy),
        model_(std::move(model)),
        state_(policy.initial_state()),
        rng_(seed),
        noise_rng_(seed + 1000),
        observer_(observed(model_)) {
    const JobView& job = model_.job;
    live_.run_name = "job";
    live_.phase = core::RunPhase::kRunning;
    live_.world_size = live_.target_size = job.workers;
    live_.batch = job.batch;
    live_.base_batch = job.base_batch;
    const std::uint32_t places = job.reachable == 0 ? job.max_workers : job.reachable;
    for (std::uint32_t host = 0; host * model_.slots_per_host < places; ++host) {
      const std::uint32_t slots = std::min(model_.slots_per_host, places - host * model_.slots_per_host);
      live_.agents.push_back({AgentId{host + 1}, "h" + std::to_string(host), slots, core::AgentPhase::kUp, 0, {}});
    }
    begin_generation();
  }

  // As the state machine shows it to policies.
  const core::RunView& live() const { return live_; }

  // On from where it stopped.
  BatchRun run(double longest_s) {
    const double total = model_.job.samples_total;
    while ((total == 0 || samples_ < total) && run_.now_s < longest_s) {
      if (live_.phase == core::RunPhase::kChanging && run_.now_s >= change_at_s_) arrive();
      steps();
      ClusterView view = observer_.take(live_, run_.now_s);
      run_.job = view.jobs.at(0);
      const JobDecision decision = policy_.decide(view, *state_, rng_).jobs.at(0);
      ++run_.views;
      run_.last = decision.reason;
      if (!decision.goodput.empty()) run_.goodput = decision.goodput;
      carry_out(decision);
      run_.job.workers = live_.world_size;
      run_.job.batch = live_.batch;
    }
    return run_;
  }

 private:
  static policy::ObserverSettings observed(const BatchJob& model) {
    policy::ObserverSettings settings;
    settings.min_workers = model.job.min_workers;
    settings.max_workers = model.job.max_workers;
    settings.samples_total = model.job.samples_total;
    settings.price_per_worker_hour = model.price_per_worker_hour;
    return settings;
  }

  // As the state machine and its workers do, after a change of size or batch.
  void begin_generation() {
    ++live_.generation;
    const BatchPlan plan = plan_batch(live_.batch, live_.world_size);
    live_.global_batch = plan.global;
    live_.workers.clear();
    for (std::uint32_t rank = 0; rank < live_.world_size; ++rank) {
      core::WorkerView& member = live_.workers.emplace_back();
      member.worker = WorkerId{rank + 1};
      member.phase = core::WorkerPhase::kMember;
      member.rank = rank;
      member.host = "h" + std::to_string(rank / model_.slots_per_host);
      member.share = plan.shares[rank];
    }
    observer_.planned(live_.generation, WorkerId{1}, live_.world_size, plan.global);
    warms_up_ = true;
    run_.settings.emplace_back(live_.world_size, live_.batch.per_worker);
  }

  void arrive() {
    live_.world_size = live_.target_size;
    live_.phase = core::RunPhase::kRunning;
    live_.gathering = false;
    begin_generation();
  }

  // All until the next view. The first step of a generation has a heartbeat of its own.
  void steps() {
    const double end_s = run_.now_s + model_.view_every_s;
    if (std::exchange(warms_up_, false)) beat(run_.now_s + 1e-9);
    beat(end_s);
  }

  void beat(double end_s) {
    const double local = static_cast<double>(live_.global_batch) / live_.world_size;
    protocol::WorkerHeartbeat heartbeat{.sequence = ++sequence_, .generation = live_.generation};
    const double begin_s = run_.now_s;
    double compute_s = 0;
    while (run_.now_s < end_s) {
      const double factor = std::exp(model_.noise * normal_(noise_rng_) - model_.noise * model_.noise / 2);
      compute_s += model_.step_s(1, local) * factor;
      run_.now_s += model_.step_s(live_.world_size, local) * factor;
      ++heartbeat.steps;
    }
    if (heartbeat.steps == 0) return;
    steps_ += heartbeat.steps;
    samples_ += static_cast<double>(heartbeat.steps * live_.global_batch);
    heartbeat.step = steps_;
    heartbeat.samples_used = static_cast<std::uint64_t>(samples_);
    heartbeat.mean.step_us = (run_.now_s - begin_s) / heartbeat.steps * 1e6;
    heartbeat.mean.compute_us = compute_s / heartbeat.steps * 1e6;
    measure_norms(local, heartbeat);
    for (const auto& member : live_.workers) observer_.on_heartbeat(member.worker, heartbeat, run_.now_s);
  }

  // For gradients with G^2 = 1 and the job's noise scale, with the variance after that number of steps. One worker
  // reports halves of its batch if `reports_halves`.
  void measure_norms(double local, protocol::WorkerHeartbeat& heartbeat) {
    const double noise_scale = model_.noise_scale(samples_);
    if (noise_scale <= 0 || (live_.world_size < 2 && !model_.reports_halves)) return;
    if (live_.world_size == 1) local /= 2;
    const auto seen = [&](double batch) {
      return (1 + noise_scale / batch) * (1 + model_.norm_noise * normal_(noise_rng_) / std::sqrt(heartbeat.steps));
    };
    heartbeat.norm_steps = heartbeat.steps;
    heartbeat.local_square = seen(local);
    heartbeat.global_square = seen(static_cast<double>(live_.global_batch));
    heartbeat.local_inverse_batch = 1 / local;
    heartbeat.global_inverse_batch = 1 / static_cast<double>(live_.global_batch);
  }

  void carry_out(const JobDecision& decision) {
    const bool resizes = decision.workers && *decision.workers != live_.target_size;
    const bool changes_batch = decision.per_worker_batch.has_value();  // as often as it is decided, as in a run
    if (changes_batch) live_.batch.per_worker = *decision.per_worker_batch;
    if (!resizes) {
      if (changes_batch && live_.phase == core::RunPhase::kRunning) begin_generation();
      return;
    }
    live_.target_size = *decision.workers;
    live_.gathering = live_.target_size != live_.world_size;
    live_.phase = live_.gathering ? core::RunPhase::kChanging : core::RunPhase::kRunning;
    change_at_s_ = live_.target_size > model_.startable ? INFINITY : run_.now_s + model_.change_s;
  }

  const Policy& policy_;
  BatchJob model_;
  std::unique_ptr<PolicyState> state_;
  Rng rng_;
  std::mt19937_64 noise_rng_;
  std::normal_distribution<double> normal_{0, 1};
  policy::Observer observer_;
  core::RunView live_;
  BatchRun run_;
  double change_at_s_ = 0;
  double samples_ = 0;
  Step steps_ = 0;
  std::uint64_t sequence_ = 0;
  bool warms_up_ = false;
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

#include "heuristics/simulate/closed_loop.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

namespace elastictrain::heuristics {
namespace {

class Loop {
 public:
  Loop(const Policy& policy, const JobModel& model, const LoopSettings& settings)
      : policy_(policy),
        model_(model),
        settings_(settings),
        state_(policy.initial_state()),
        policy_rng_(settings.seed),
        noise_rng_(settings.seed ^ 0x9e3779b97f4a7c15ULL),
        noise_(model.noise, model.noise_correlation),
        workers_(settings.start_workers),
        warm_up_left_(model.warm_up_steps) {
    next_view_s_ = settings.view_every_s;
    open_segment();
  }

  Trajectory run() {
    while (done_ < model_.samples_total && now_ < settings_.longest_s) {
      step();
      if (joiners_ready()) take_size(asked_.to, model_.grow_idle_s);
      if (now_ >= next_view_s_) {
        decide();
        next_view_s_ = now_ + settings_.view_every_s;
      }
    }
    close_segment();
    out_.job_s = now_;
    for (const auto& segment : out_.segments) out_.worker_seconds += segment.seconds() * segment.paid;
    out_.cost = out_.worker_seconds * model_.price_per_worker_hour / 3600;
    return std::move(out_);
  }

 private:
  bool joiners_ready() const { return starting_ && now_ >= asked_.asked_s + model_.cold_start_s; }
  std::uint32_t paid() const { return starting_ ? std::max(workers_, asked_.to) : workers_; }

  void open_segment() { out_.segments.push_back({now_, now_, workers_, paid(), 0}); }
  void close_segment() {
    if (out_.segments.back().begin_s == now_) out_.segments.pop_back();
  }
  void next_segment() {
    close_segment();
    open_segment();
  }

  // Very short steps are simulated several at a time, with the noise of their mean.
  std::uint64_t steps_at_once(double step_s) const {
    constexpr double kDrawsEachView = 40;
    if (warm_up_left_ > 0 || model_.noise_correlation > 0 || model_.outlier_share > 0) return 1;
    return static_cast<std::uint64_t>(std::max(1.0, settings_.view_every_s / (kDrawsEachView * step_s)));
  }

  double outlier() {
    if (!(model_.outlier_share > 0)) return 1;
    return std::bernoulli_distribution(model_.outlier_share)(noise_rng_) ? model_.outlier_times : 1;
  }

  void step() {
    const bool warm_up = warm_up_left_ > 0;
    const double step_s = model_.step_s(workers_, now_) * (warm_up ? model_.warm_up_factor : 1) * outlier();
    const std::uint64_t steps = steps_at_once(step_s);
    const auto count = static_cast<double>(steps);
    const double took = count * step_s * (1 + (noise_.next(noise_rng_) - 1) / std::sqrt(count));
    const std::uint64_t samples = steps * plan_batch(model_.batch, workers_).global;
    add_interval(took, steps, samples, warm_up);
    view_steps_ += steps;
    view_step_s_ += took;
    view_compute_s_ += took * model_.compute_part(workers_, now_);
    if (warm_up) --warm_up_left_;
    now_ += took;
    done_ += static_cast<double>(samples);
    steps_ += count;
    worker_seconds_ += took * paid();
    out_.segments.back().end_s = now_;
    out_.segments.back().samples += static_cast<double>(samples);
  }

  void add_interval(double took, std::uint64_t steps, std::uint64_t samples, bool warm_up) {
    if (intervals_.empty() || intervals_.back().workers != workers_ || intervals_.back().warm_up != warm_up) {
      Interval fresh;
      fresh.begin_s = fresh.end_s = now_;
      fresh.workers = workers_;
      fresh.global_batch = samples / steps;
      fresh.warm_up = warm_up;
      intervals_.push_back(fresh);
    }
    auto& interval = intervals_.back();
    interval.end_s += took;
    interval.steps += steps;
    interval.samples += samples;
  }

  void take_size(std::uint32_t workers, double idle_s) {
    asked_.at_s = now_;
    out_.changes.push_back(asked_);
    starting_ = false;
    workers_ = workers;
    warm_up_left_ = model_.warm_up_steps;
    next_segment();
    now_ += idle_s;
    out_.idle_s += idle_s;
    worker_seconds_ += idle_s * workers_;
    out_.segments.back().end_s = now_;
  }

  ClusterView view() const {
    ClusterView view;
    view.now_s = now_;
    for (std::uint32_t first = 0; first < model_.max_workers; first += model_.slots_per_host) {
      HostView host;
      host.name = "host" + std::to_string(view.hosts.size());
      host.slots = model_.slots_per_host;
      host.free_slots = paid() <= first ? host.slots : host.slots - std::min(paid() - first, host.slots);
      host.price_per_worker_hour = model_.price_per_worker_hour;
      view.hosts.push_back(host);
    }
    JobView job;
    job.name = "job";
    job.workers = workers_;
    job.target = starting_ ? asked_.to : workers_;
    job.changing = starting_;
    job.min_workers = model_.min_workers;
    job.max_workers = job.reachable = model_.max_workers;
    job.start_s = model_.cold_start_s;
    job.samples_done = done_;
    job.samples_total = model_.end_is_known ? model_.samples_total : 0;
    job.steps_done = steps_;
    job.batch = model_.batch;
    job.global_batch = plan_batch(model_.batch, workers_).global;
    job.base_batch = model_.batch.per_worker;
    job.intervals = intervals_;
    job.worker_seconds = worker_seconds_;
    job.cost = worker_seconds_ * model_.price_per_worker_hour / 3600;
    for (std::uint32_t rank = 0; rank < workers_; ++rank) {
      WorkerView member;
      member.id = member.rank = rank;
      member.host = rank / model_.slots_per_host;
      member.share = static_cast<std::uint32_t>(job.global_batch / workers_);
      member.steps = view_steps_;
      if (view_steps_ > 0) {
        member.step_s = view_step_s_ / static_cast<double>(view_steps_);
        member.compute_s = view_compute_s_ / static_cast<double>(view_steps_);
        member.communicate_s = member.step_s - member.compute_s;
      }
      job.members.push_back(member);
    }
    view.jobs.push_back(std::move(job));
    return view;
  }

  void decide() {
    const Decision decision = policy_.decide(view(), *state_, policy_rng_);
    intervals_.clear();
    view_steps_ = 0;
    view_step_s_ = view_compute_s_ = 0;
    if (decision.jobs.empty()) return;
    const JobDecision& job = decision.jobs.front();
    out_.last_reason = job.reason;
    if (job.reason.code == "settled" && out_.said_settled_s < 0) out_.said_settled_s = now_;
    if (job.workers) want(std::clamp(*job.workers, model_.min_workers, model_.max_workers), job.reason);
  }

  void want(std::uint32_t workers, const Reason& reason) {
    if (workers == (starting_ ? asked_.to : workers_)) return;
    starting_ = false;
    if (workers == workers_) {
      next_segment();
      return;
    }
    asked_ = {now_, now_, workers_, workers, reason};
    if (workers < workers_) {
      take_size(workers, model_.shrink_idle_s);
    } else {
      starting_ = true;
      next_segment();
    }
  }

  const Policy& policy_;
  const JobModel& model_;
  const LoopSettings& settings_;
  std::unique_ptr<PolicyState> state_;
  Rng policy_rng_;
  std::mt19937_64 noise_rng_;
  StepNoise noise_;
  Trajectory out_;
  std::vector<Interval> intervals_;
  SizeChange asked_;  // in progress while starting_
  bool starting_ = false;
  std::uint32_t workers_;
  std::uint32_t warm_up_left_;
  double now_ = 0;
  double next_view_s_ = 0;
  double done_ = 0;
  double steps_ = 0;
  double worker_seconds_ = 0;
  std::uint64_t view_steps_ = 0;  // since the last view
  double view_step_s_ = 0;
  double view_compute_s_ = 0;
};

}  // namespace

std::uint32_t Trajectory::size_at(double now_s) const {
  std::uint32_t size = segments.empty() ? 0 : segments.front().workers;
  for (const auto& segment : segments) {
    if (segment.begin_s <= now_s) size = segment.workers;
  }
  return size;
}

Trajectory run_closed_loop(const Policy& policy, const JobModel& model, const LoopSettings& settings) {
  return Loop(policy, model, settings).run();
}

}  // namespace elastictrain::heuristics

#include "supervisor/policy/observer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "supervisor/protocol/names.h"

namespace elastictrain::policy {
namespace {

constexpr double kSecondsPerHour = 3600;
constexpr double kMicrosecond = 1e-6;
constexpr double kNewestRate = 0.2;  // weight of a heartbeat in the mean of the newest ones

// What policies see of a worker's steps, in their units.
struct Shown {
  double protocol::StepMetrics::*measured;
  double heuristics::WorkerView::*shown;
  double unit;
};
constexpr Shown kShown[] = {
    {&protocol::StepMetrics::step_us, &heuristics::WorkerView::step_s, kMicrosecond},
    {&protocol::StepMetrics::data_wait_us, &heuristics::WorkerView::data_wait_s, kMicrosecond},
    {&protocol::StepMetrics::compute_us, &heuristics::WorkerView::compute_s, kMicrosecond},
    {&protocol::StepMetrics::communicate_us, &heuristics::WorkerView::communicate_s, kMicrosecond},
    {&protocol::StepMetrics::update_us, &heuristics::WorkerView::update_s, kMicrosecond},
    {&protocol::StepMetrics::sent_bytes, &heuristics::WorkerView::sent_bytes, 1},
    {&protocol::StepMetrics::received_bytes, &heuristics::WorkerView::received_bytes, 1},
};

void show_means(const protocol::StepMetrics& mean, heuristics::WorkerView& member) {
  for (const Shown& metric : kShown) member.*metric.shown = mean.*metric.measured * metric.unit;
}

bool is_member(const core::WorkerView& worker) {
  return worker.phase == core::WorkerPhase::kMember && worker.rank.has_value();
}

}  // namespace

Observer::Observer(ObserverSettings settings) : settings_(std::move(settings)) {}

const HostClass* class_of(const ObserverSettings& settings, const std::string& host) {
  const auto found = std::find_if(settings.classes.begin(), settings.classes.end(),
                                  [&](const HostClass& one) { return fits_pattern(host, one.pattern); });
  return found == settings.classes.end() ? nullptr : &*found;
}

double price_of(const ObserverSettings& settings, const std::string& host) {
  const HostClass* found = class_of(settings, host);
  return found != nullptr ? found->price_per_worker_hour : settings.price_per_worker_hour;
}

void Observer::planned(Generation generation, WorkerId first_rank, std::uint32_t workers, std::uint64_t global_batch) {
  plans_[generation] = {first_rank, workers, global_batch};
}

void Observer::on_heartbeat(WorkerId worker, const protocol::WorkerHeartbeat& heartbeat, double now_s) {
  Sums& sums = workers_[worker];
  if (heartbeat.sequence == sums.sequence) return;
  sums.sequence = heartbeat.sequence;
  const auto plan = plans_.find(heartbeat.generation);
  if (heartbeat.steps == 0 || heartbeat.generation < generation_ || plan == plans_.end()) return;
  if (sums.generation != heartbeat.generation) sums = {heartbeat.generation, heartbeat.sequence};
  sums.steps += heartbeat.steps;
  protocol::add(sums.sum, heartbeat.mean, heartbeat.steps);
  sums.round_trip_us = heartbeat.round_trip_us;
  if (plan->second.first_rank != worker) return;
  add_interval(heartbeat, plan->second, now_s);
  if (heartbeat.norm_steps != 0) add_norms(heartbeat, plan->second);
}

bool Observer::represents_job(WorkerId worker, Generation generation) const {
  const auto plan = plans_.find(generation);
  return plan != plans_.end() && plan->second.first_rank == worker;
}

void Observer::on_cpu_time(WorkerId worker, std::uint64_t cpu_ms, double now_s) {
  if (cpu_ms == 0) return;
  const CpuTime now{static_cast<double>(cpu_ms) * 1e-3, now_s};
  CpuTimes& times = cpu_times_.try_emplace(worker, CpuTimes{now, now}).first->second;
  if (now.cpu_s < times.last.cpu_s) times.first = now;  // another process
  times.last = now;
}

double Observer::processors_of(WorkerId worker) {
  const auto found = cpu_times_.find(worker);
  if (found == cpu_times_.end()) return 0;
  const CpuTime first = std::exchange(found->second.first, found->second.last);
  const double seconds = found->second.last.at_s - first.at_s;
  return seconds > 0 ? (found->second.last.cpu_s - first.cpu_s) / seconds : 0;
}

// Of several plans the newest counts.
void Observer::add_norms(const protocol::WorkerHeartbeat& heartbeat, const Planned& plan) {
  if (norms_of_.workers != plan.workers || norms_of_.global_batch != plan.global_batch) norms_ = {};
  norms_of_ = plan;
  NormSums seen{heartbeat.norm_steps, heartbeat.local_square, heartbeat.global_square, heartbeat.local_inverse_batch,
                heartbeat.global_inverse_batch};
  if (seen.global_inverse_batch == 0) {
    seen.global_inverse_batch = 1 / static_cast<double>(plan.global_batch);
    seen.local_inverse_batch = std::max(1U, plan.workers) * seen.global_inverse_batch;
  }
  norms_.count += seen.count;
  const double part = static_cast<double>(seen.count) / static_cast<double>(norms_.count);
  for (const auto norm : {&NormSums::local_square, &NormSums::global_square, &NormSums::local_inverse_batch,
                          &NormSums::global_inverse_batch}) {
    norms_.*norm += (seen.*norm - norms_.*norm) * part;
  }
}

heuristics::GradientNorms Observer::take_norms() {
  const NormSums sums = std::exchange(norms_, {});
  if (sums.count == 0) return {};
  // Equal batches must stay equal, whatever their inverses were rounded to.
  const auto batch = [](double inverse) { return std::round(1e6 / inverse) / 1e6; };
  return {.count = sums.count,
          .local_square = sums.local_square,
          .global_square = sums.global_square,
          .local_batch = batch(sums.local_inverse_batch),
          .global_batch = batch(sums.global_inverse_batch),
          .workers = norms_of_.workers};
}

void Observer::add_interval(const protocol::WorkerHeartbeat& heartbeat, const Planned& plan, double now_s) {
  const Step first = heartbeat.step - std::min<Step>(heartbeat.step, heartbeat.steps - 1);
  if (heartbeat.generation != generation_) {
    generation_ = heartbeat.generation;
    warm_until_ = first + settings_.warm_up_steps;
    plans_.erase(plans_.begin(), plans_.find(generation_));
  }
  const double seconds = heartbeat.steps * heartbeat.mean.step_us * kMicrosecond;
  heuristics::Interval interval;
  interval.begin_s = now_s - seconds;
  interval.end_s = now_s;
  interval.workers = plan.workers;
  interval.steps = heartbeat.steps;
  interval.global_batch = plan.global_batch;
  interval.samples = heartbeat.steps * plan.global_batch;
  interval.warm_up = first < warm_until_;
  size_ = plan.workers;
  if (!interval.warm_up && interval.samples_per_s() > 0) note_rate(interval.samples_per_s());
  samples_done_ = static_cast<double>(heartbeat.samples_used);
  steps_done_ = static_cast<double>(heartbeat.step);
  if (heartbeat.loss_samples != 0 || heartbeat.loss != 0) {
    loss_ = heartbeat.loss_samples != 0 ? heartbeat.mean_loss : heartbeat.loss;
    has_loss_ = true;
  }
  const bool goes_on = !intervals_.empty() && intervals_.back().workers == interval.workers &&
                       intervals_.back().global_batch == interval.global_batch &&
                       intervals_.back().warm_up == interval.warm_up;
  if (!goes_on) {
    intervals_.push_back(interval);
    return;
  }
  heuristics::Interval& last = intervals_.back();
  const double sum = last.seconds() + seconds;  // of the steps themselves: heartbeats arrive at other times
  last.end_s = now_s;
  last.begin_s = now_s - sum;
  last.steps += interval.steps;
  last.samples += interval.samples;
}

void Observer::note_rate(double samples_per_s) {
  double& rate = step_rates_.try_emplace(size_, samples_per_s).first->second;
  rate += kNewestRate * (samples_per_s - rate);
}

Economy Observer::economy() const {
  Economy economy{.worker_seconds = worker_seconds_, .cost = cost_};
  const auto here = step_rates_.find(size_);
  if (here == step_rates_.end() || here == step_rates_.begin()) return economy;
  const auto& [smallest, rate] = *step_rates_.begin();
  economy.smallest_size = smallest;
  economy.scaling_efficiency = here->second / size_ / (rate / smallest);
  return economy;
}

std::uint64_t Observer::fresh_steps() const {
  std::uint64_t steps = 0;
  for (const auto& interval : intervals_) {
    if (!interval.warm_up) steps += interval.steps;
  }
  return steps;
}

// Every process of the run costs money, also one that starts, waits or leaves.
void Observer::pay(const core::RunView& run, double now_s) {
  const double passed = std::max(0.0, now_s - paid_until_s_);
  paid_until_s_ = now_s;
  for (const auto& worker : run.workers) {
    worker_seconds_ += passed;
    cost_ += passed * price_of(settings_, worker.host) / kSecondsPerHour;
  }
}

// As the user says; else by the program's epochs and steps, at the present batch.
double Observer::samples_total(const core::RunView& run) const {
  if (settings_.samples_total > 0) return settings_.samples_total;
  double total = static_cast<double>(run.epoch_samples) * static_cast<double>(run.epochs);
  if (run.max_steps == 0) return total;
  const double steps_left = std::max(0.0, static_cast<double>(run.max_steps) - steps_done_);
  const double by_steps = samples_done_ + steps_left * static_cast<double>(run.global_batch);
  return total > 0 ? std::min(total, by_steps) : by_steps;
}

heuristics::JobView Observer::outline_of(const core::RunView& run) const {
  heuristics::JobView job;
  job.name = run.run_name;
  job.workers = run.world_size;
  job.target = run.target_size;
  job.min_workers = settings_.min_workers;
  job.max_workers = settings_.max_workers;
  job.samples_done = samples_done_;
  job.samples_total = samples_total(run);
  job.steps_done = steps_done_;
  job.loss = loss_;
  job.has_loss = has_loss_;
  job.batch = run.batch;
  job.global_batch = run.global_batch;
  job.worker_seconds = worker_seconds_;
  job.cost = cost_;
  return job;
}

heuristics::ClusterView Observer::outline(const core::RunView& run, double now_s) const {
  return {now_s, {}, {outline_of(run)}};
}

heuristics::ClusterView Observer::take(const core::RunView& run, double now_s) {
  pay(run, now_s);
  heuristics::ClusterView view;
  view.now_s = now_s;
  std::map<std::string, std::uint32_t> places;
  heuristics::JobView job = outline_of(run);
  for (const auto& agent : run.agents) {
    if (agent.gone) continue;
    places[agent.host] = static_cast<std::uint32_t>(view.hosts.size());
    const HostClass* host_class = class_of(settings_, agent.host);
    const bool leaving = agent.leaving();
    view.hosts.push_back({agent.host, host_class != nullptr ? host_class->name : "", agent.slots,
                          agent.slots - std::min(agent.slots, agent.workers), price_of(settings_, agent.host),
                          leaving});
    if (!leaving) job.reachable += agent.slots;
  }
  if (settings_.hosts_can_be_had) job.reachable = std::max(job.reachable, settings_.max_workers);
  job.held = run.held;
  if (run.held) job.min_workers = job.max_workers = run.target_size;
  job.changing = run.phase != core::RunPhase::kRunning;
  job.start_s = static_cast<double>(run.start_ms) * 1e-3;
  job.base_batch = run.base_batch;
  job.learning_rate_factor = run.learning_rate_factor;
  job.topology = protocol::text_of(run.topology, run.parents);
  job.synchronization = protocol::name_of(run.synchronization);
  job.intervals = std::exchange(intervals_, {});
  job.norms = take_norms();
  std::map<WorkerId, Sums> kept;
  for (const auto& agent : run.agents) job.spares += static_cast<std::uint32_t>(agent.warm.size());
  for (const auto& worker : run.workers) {
    if (worker.phase == core::WorkerPhase::kSpare) ++job.spares;
    if (!is_member(worker)) continue;
    Sums& sums = workers_[worker.worker];
    heuristics::WorkerView member;
    member.id = worker.worker.value;
    member.rank = *worker.rank;
    member.host = places[worker.host];
    member.share = worker.share;
    member.steps = sums.steps;
    if (sums.steps != 0) {
      show_means(protocol::mean(sums.sum, sums.steps), member);
      member.round_trip_s = sums.round_trip_us * kMicrosecond;
    }
    member.processors = processors_of(worker.worker);
    job.members.push_back(member);
    kept[worker.worker] = {sums.generation, sums.sequence};
  }
  std::erase_if(cpu_times_, [&kept](const auto& entry) { return !kept.contains(entry.first); });
  workers_ = std::move(kept);
  view.jobs.push_back(std::move(job));
  return view;
}

namespace {

constexpr double kKnown = 0.3;  // relative error below which the noise scale is used
constexpr double kDrift = 0.1;  // change of the learning rate that justifies a new generation
constexpr double kGrown = 0.4;  // as kDrift, of a lower bound, which grows with every measurement

}  // namespace

void NoiseWatch::add(const heuristics::JobView& job) {
  noise_.add(job.norms);
  base_batch_ = static_cast<double>(job.base_batch);
  largest_batch_ = static_cast<double>(heuristics::global_batch(job.batch, max_workers_));
}

double NoiseWatch::gain(double noise_scale) const {
  return heuristics::adascale_gain(noise_scale, std::max(largest_batch_, base_batch_), base_batch_);
}

std::optional<double> NoiseWatch::take_news() {
  if (rule_ != heuristics::LearningRateRule::kAdaScale) return std::nullopt;
  const bool known = noise_.value() && noise_.relative_error().value_or(1) <= kKnown;
  const auto scale = known ? noise_.value() : noise_.at_least();
  if (!scale) return std::nullopt;
  const double change = std::log(gain(*scale) / gain(reported_));
  if (known ? std::abs(change) <= kDrift : change <= kGrown) return std::nullopt;
  reported_ = *scale;
  return reported_;
}

}  // namespace elastictrain::policy

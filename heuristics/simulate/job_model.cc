#include "heuristics/simulate/job_model.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace elastictrain::heuristics {

ThroughputCurve::ThroughputCurve(std::vector<std::pair<std::uint32_t, double>> points) : points_(std::move(points)) {}

double ThroughputCurve::operator()(std::uint32_t workers) const {
  if (points_.empty() || workers == 0) return 0;
  const auto right = std::lower_bound(points_.begin(), points_.end(), workers,
                                      [](const auto& point, std::uint32_t size) { return point.first < size; });
  if (right == points_.end()) return points_.back().second;
  if (right == points_.begin()) return right->second * workers / right->first;
  const auto left = right - 1;
  const double part = static_cast<double>(workers - left->first) / (right->first - left->first);
  return left->second + part * (right->second - left->second);
}

ThroughputCurve ThroughputCurve::monotone() const {
  auto points = points_;
  for (std::size_t i = 1; i < points.size(); ++i) points[i].second = std::max(points[i].second, points[i - 1].second);
  return ThroughputCurve(std::move(points));
}

double JobModel::rate(std::uint32_t workers, double now_s) const {
  const ThroughputCurve& now = later_from_s > 0 && now_s >= later_from_s ? later : curve;
  return now(workers) * std::exp(drift_per_hour * now_s / 3600);
}

double JobModel::step_s(std::uint32_t workers, double now_s) const {
  return static_cast<double>(plan_batch(batch, workers).global) / rate(workers, now_s);
}

double JobModel::compute_part(std::uint32_t workers, double now_s) const {
  const double share = static_cast<double>(plan_batch(batch, workers).global) / workers;
  return std::min(1.0, share / rate(1, now_s) / step_s(workers, now_s));
}

StepNoise::StepNoise(double deviation, double correlation)
    : sigma_(std::sqrt(std::log1p(deviation * deviation))), correlation_(correlation) {}

double StepNoise::next(std::mt19937_64& rng) {
  std::normal_distribution<double> normal;
  const double fresh = normal(rng);
  state_ = first_ ? fresh : correlation_ * state_ + std::sqrt(1 - correlation_ * correlation_) * fresh;
  first_ = false;
  return std::exp(sigma_ * state_ - sigma_ * sigma_ / 2);
}

WorkerModel::WorkerModel(WorkerModelOptions options) : options_(std::move(options)) {
  JobView& job = view_.jobs.emplace_back();
  job.name = "model";
  job.batch = options_.batch;
  job.topology = "auto";
  for (std::uint32_t host = 0; host < options_.hosts; ++host) {
    HostView& seen = view_.hosts.emplace_back();
    seen.name = "host" + std::to_string(host);
    seen.slots = options_.slots_per_host;
    seen.free_slots = options_.slots_per_host - std::min(options_.workers_per_host, options_.slots_per_host);
    for (std::uint32_t i = 0; i < options_.workers_per_host; ++i) {
      WorkerView& member = job.members.emplace_back();
      member.id = next_id_++;
      member.host = host;
    }
  }
  job.workers = job.target = job.max_workers = static_cast<std::uint32_t>(job.members.size());
  job.reachable = options_.hosts * options_.slots_per_host;
  share_out_again();
  share_changes_ = 0;
}

double WorkerModel::factor(const WorkerView& member) const {
  double product = 1;
  for (const SlowCause& cause : causes_) {
    const std::uint64_t own = cause.of == SlowCause::Of::kWorker ? member.id
                              : cause.of == SlowCause::Of::kHost ? member.host
                                                                 : member.rank;
    if (own != cause.who || step_ < cause.from_step || step_ >= cause.until_step) continue;
    const std::uint64_t since = step_ - cause.from_step;
    const double part = since >= cause.grows_over_steps ? 1 : 1.0 * since / cause.grows_over_steps;
    product *= 1 + (cause.factor - 1) * part;
  }
  return product;
}

double WorkerModel::compute_s(const WorkerView& member) const {
  return factor(member) * (options_.fixed_s + options_.sample_s * member.share);
}

double WorkerModel::expected_compute_s() const {
  double slowest = 0;
  for (const WorkerView& member : members()) slowest = std::max(slowest, compute_s(member));
  return slowest;
}

// All arrive at t: the shares (t/f - fixed)/sample add up to the batch.
double WorkerModel::best_compute_s() const {
  double inverse = 0;
  for (const WorkerView& member : members()) inverse += 1 / factor(member);
  const double work = options_.sample_s * static_cast<double>(view_.jobs[0].global_batch);
  return (work + options_.fixed_s * static_cast<double>(members().size())) / inverse;
}

const ClusterView& WorkerModel::step() {
  join_ready();
  JobView& job = view_.jobs[0];
  double slowest = 0;
  for (WorkerView& member : job.members) {
    const double noise = options_.noise ? options_.noise(member.id, step_) : 1;
    member.compute_s = compute_s(member) * noise;
    member.steps = 1;
    slowest = std::max(slowest, member.compute_s);
  }
  const double exchange_s = options_.exchange_s ? options_.exchange_s(job.topology, step_) : options_.communicate_s;
  const double step_s = slowest + exchange_s;
  for (WorkerView& member : job.members) {
    member.step_s = step_s;
    member.communicate_s = step_s - member.compute_s;
  }
  view_.now_s += step_s;
  ++step_;
  job.steps_done += 1;
  job.samples_done += static_cast<double>(job.global_batch);
  return view_;
}

void WorkerModel::carry_out(const Decision& decision) {
  if (decision.jobs.empty()) return;
  if (decision.jobs[0].topology) view_.jobs[0].topology = *decision.jobs[0].topology;
  for (const Replacement& replacement : decision.jobs[0].replacements) start_replacement(replacement);
  if (const auto& speeds = decision.jobs[0].speeds) {
    speeds_.clear();
    for (const WorkerSpeed& speed : *speeds) speeds_[speed.worker] = speed.speed;
    share_out_again();
  }
}

std::optional<std::uint32_t> WorkerModel::place_for(const Replacement& replacement) const {
  const auto leaver = std::find_if(members().begin(), members().end(),
                                   [&](const WorkerView& member) { return member.id == replacement.worker; });
  if (leaver == members().end()) return std::nullopt;
  if (!replacement.other_host && view_.hosts[leaver->host].free_slots > 0) return leaver->host;
  for (std::uint32_t host = 0; host < view_.hosts.size(); ++host) {
    if (host != leaver->host && view_.hosts[host].free_slots > 0) return host;
  }
  return std::nullopt;
}

void WorkerModel::start_replacement(const Replacement& replacement) {
  const auto host = place_for(replacement);
  if (!host) return;
  --view_.hosts[*host].free_slots;
  starts_.push_back({replacement.worker, *host, view_.now_s + options_.start_s});
  view_.jobs[0].changing = true;
}

void WorkerModel::join_ready() {
  const bool all_ready =
      std::all_of(starts_.begin(), starts_.end(), [&](const Start& start) { return start.ready_s <= view_.now_s; });
  if (starts_.empty() || !all_ready) return;
  std::vector<WorkerView>& all = view_.jobs[0].members;
  for (const Start& start : starts_) {
    const auto leaver =
        std::find_if(all.begin(), all.end(), [&](const WorkerView& member) { return member.id == start.leaver; });
    ++view_.hosts[leaver->host].free_slots;
    all.erase(leaver);
    WorkerView& joiner = all.emplace_back();
    joiner.id = next_id_++;
    joiner.host = start.host;
    ++replaced_;
  }
  starts_.clear();
  view_.jobs[0].changing = false;
  share_out_again();
}

void WorkerModel::share_out_again() {
  JobView& job = view_.jobs[0];
  std::vector<double> speeds;
  for (const WorkerView& member : job.members) {
    const auto known = speeds_.find(member.id);
    speeds.push_back(known == speeds_.end() ? 1 : known->second);
  }
  const BatchPlan plan = plan_batch(job.batch, speeds);
  job.global_batch = plan.global;
  bool changed = false;
  for (std::uint32_t rank = 0; rank < job.members.size(); ++rank) {
    changed = changed || job.members[rank].share != plan.shares[rank];
    job.members[rank].rank = rank;
    job.members[rank].share = plan.shares[rank];
  }
  share_changes_ += changed ? 1 : 0;
}

}  // namespace elastictrain::heuristics

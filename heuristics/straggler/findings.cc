#include "heuristics/straggler/findings.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "heuristics/straggler/detector.h"

namespace elastictrain::heuristics {
namespace {

struct Usual {
  double wait_s = 0;  // lower medians over the workers
  double step_s = 0;
};

std::optional<Usual> usual_of(const JobView& job) {
  std::vector<double> waits;
  std::vector<double> steps;
  for (const WorkerView& member : job.members) {
    if (member.steps == 0) continue;
    waits.push_back(member.data_wait_s);
    steps.push_back(member.step_s);
  }
  if (waits.size() < 2) return std::nullopt;
  return Usual{lower_median(waits), lower_median(steps)};
}

}  // namespace

std::optional<Reason> DataWait::observe(const ClusterView& view, const JobView& job, const DataWaitOptions& options) {
  tracks_.follow(job.members);
  const double begin_s = std::exchange(previous_s_, view.now_s);
  const auto usual = usual_of(job);
  if (!usual) return std::nullopt;
  const WorkerView* worst = nullptr;
  double worst_s = 0;
  for (std::size_t i = 0; i < job.members.size(); ++i) {
    const WorkerView& member = job.members[i];
    Track& track = tracks_[i];
    if (member.steps > 0) {
      track.excess_s = member.data_wait_s - usual->wait_s;
      const bool waits = track.excess_s > options.min_share * usual->step_s;
      if (waits && track.views == 0) track.since_s = (begin_s + view.now_s) / 2;  // somewhere in this view
      track.views = waits ? track.views + 1 : 0;
    }
    const bool lasts = track.views >= options.min_views && view.now_s - track.since_s >= options.min_s;
    if (!lasts || track.excess_s <= worst_s) continue;
    worst = &member;
    worst_s = track.excess_s;
  }
  if (worst == nullptr) return std::nullopt;
  char text[260];
  std::snprintf(
      text, sizeof text,
      "worker %llu (rank %u on %s) waits %.1f ms in each step for its data, the others %.1f ms: another worker "
      "would wait for them as well",
      static_cast<unsigned long long>(worst->id), worst->rank, host_name(view, worst->host).c_str(),
      1e3 * worst->data_wait_s, 1e3 * usual->wait_s);
  return Reason{"data_bound", text, {{"data_wait_s", worst->data_wait_s}, {"others_s", usual->wait_s}}};
}

namespace {

constexpr std::uint32_t kMinPairViews = 6;
constexpr std::uint32_t kRecentPairViews = 48;  // beyond which older views are forgotten
constexpr double kStandardErrors = 4;
constexpr double kOtherLoad = 0.15;  // shares of a processor that differ by less say nothing

bool has_figures(const WorkerView& member) {
  return member.steps > 0 && member.share > 0 && member.compute_s > 0;
}

// With uneven shares a part of each step does not depend on the share: the smaller of both ratios counts.
double log_ratio_of(const WorkerView& second, const WorkerView& first) {
  const double of_steps = std::log(second.compute_s / first.compute_s);
  const double of_samples = of_steps + std::log(static_cast<double>(first.share) / second.share);
  if (of_steps * of_samples <= 0) return 0;
  return std::abs(of_steps) < std::abs(of_samples) ? of_steps : of_samples;
}

std::string name_with_host(const ClusterView& view, const WorkerView& worker) {
  return "worker " + std::to_string(worker.id) + " (rank " + std::to_string(worker.rank) + " on " +
         host_name(view, worker.host) + ")";
}

}  // namespace

std::optional<Reason> PairDifference::observe(const ClusterView& view, const JobView& job, const PairOptions& options) {
  const bool is_pair = job.members.size() == 2;
  const bool same = is_pair && job.members[0].id == first_ && job.members[1].id == second_;
  if (!same) begin(job, view.now_s);
  if (!is_pair) return std::nullopt;
  if (has_figures(job.members[0]) && has_figures(job.members[1])) add(job.members[0], job.members[1]);
  if (!is_certain(view.now_s, options)) return std::nullopt;
  const bool is_second = ratio_ > 0;
  const WorkerView& slower = job.members[is_second ? 1 : 0];
  const WorkerView& other = job.members[is_second ? 0 : 1];
  const double times = std::exp(std::abs(ratio_));
  const double slower_s = is_second ? second_s_ : first_s_;
  const double other_s = is_second ? first_s_ : second_s_;
  const double slower_busy = is_second ? second_busy_ : first_busy_;
  const double other_busy = is_second ? first_busy_ : second_busy_;
  char figures[120];
  std::snprintf(figures, sizeof figures, " takes %.2f times the time of ", times);
  std::string text = name_with_host(view, slower) + figures + name_with_host(view, other);
  std::snprintf(figures, sizeof figures, ", %.1f and %.1f ms before each sum, over %llu steps", 1e3 * slower_s,
                1e3 * other_s, static_cast<unsigned long long>(steps_));
  text += figures;
  if (slower_busy > 0 && other_busy > 0 && std::abs(slower_busy - other_busy) > kOtherLoad) {
    std::snprintf(figures, sizeof figures, "; its process keeps %.2f processors busy, that of the other %.2f",
                  slower_busy, other_busy);
    text += figures;
  }
  text += ". Two workers alone do not show which of them is as it should be: look at both hosts";
  return Reason{"pair_differs", std::move(text), {{"slowdown", times}}};
}

void PairDifference::begin(const JobView& job, double now_s) {
  *this = PairDifference();
  if (job.members.size() != 2) return;
  first_ = job.members[0].id;
  second_ = job.members[1].id;
  since_s_ = now_s;
}

void PairDifference::add(const WorkerView& first, const WorkerView& second) {
  views_ = std::min(views_ + 1, kRecentPairViews);
  steps_ += std::min(first.steps, second.steps);
  const double part = 1.0 / views_;
  const double difference = log_ratio_of(second, first) - ratio_;
  ratio_ += part * difference;
  square_ = (1 - part) * (square_ + part * difference * difference);
  first_s_ += part * (first.compute_s - first_s_);
  second_s_ += part * (second.compute_s - second_s_);
  first_busy_ += part * (first.processors - first_busy_);
  second_busy_ += part * (second.processors - second_busy_);
}

bool PairDifference::is_certain(double now_s, const PairOptions& options) const {
  if (views_ < kMinPairViews || steps_ < options.min_steps || now_s - since_s_ < options.min_s) return false;
  const double error = std::sqrt(square_ / (views_ - 1));
  return std::abs(ratio_) - kStandardErrors * error > std::log1p(std::max(options.min_slowdown, 0.001));
}

}  // namespace elastictrain::heuristics

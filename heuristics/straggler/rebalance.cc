#include "heuristics/straggler/rebalance.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace elastictrain::heuristics {
namespace {

constexpr std::uint32_t kMaxCorrections = 2;
constexpr double kLargeGain = 3;  // multiples of least_gain
constexpr double kHelps = 0.25;   // of the gain that was expected
constexpr double kLeastJudged = 0.12;
constexpr double kRecentSteps = 8;
constexpr double kLeftAlone_s = 600;
constexpr double kPatience = 4;  // multiples of settle_steps, for shares that do not come about

using Speeds = std::map<std::uint64_t, double>;

std::vector<std::uint32_t> present_shares(const JobView& job) {
  std::vector<std::uint32_t> shares;
  shares.reserve(job.members.size());
  for (const WorkerView& member : job.members) shares.push_back(member.share);
  return shares;
}

std::vector<std::uint32_t> shares_of(const JobView& job, const Speeds& speeds) {
  std::vector<double> by_place;
  by_place.reserve(job.members.size());
  for (const WorkerView& member : job.members) {
    const auto own = speeds.find(member.id);
    by_place.push_back(own == speeds.end() ? 1 : own->second);
  }
  return share_out(job.global_batch, by_place, job.batch.max_share);
}

// The time at which the last worker finishes, in sample times of a normal worker.
double end_of(const JobView& job, const std::vector<std::uint32_t>& shares, const Speeds& target) {
  double end = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const auto own = target.find(job.members[i].id);
    end = std::max(end, shares[i] / (own == target.end() ? 1 : own->second));
  }
  return end;
}

Reason reason_of(const JobView& job, const Speeds& speeds, const std::vector<std::uint32_t>& shares, double gain) {
  std::string text;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const auto own = speeds.find(job.members[i].id);
    if (own == speeds.end() || text.size() > 300) continue;
    char one[160];
    std::snprintf(one, sizeof one,
                  "%sworker %llu takes %.2f times the others' time for a sample: share %u instead of %u",
                  text.empty() ? "" : "; ", static_cast<unsigned long long>(own->first), 1 / own->second, shares[i],
                  job.members[i].share);
    text += one;
  }
  if (text.empty()) text = "all workers have equal speed again: equal shares";
  char end[60];
  std::snprintf(end, sizeof end, "; steps get %.1f %% shorter", 100 * gain);
  return {"rebalance", text + end, {{"gain", gain}, {"slow", static_cast<double>(speeds.size())}}};
}

}  // namespace

// The first view with other shares is of steps before them, too.
void Rebalance::watch(const JobView& job) {
  const std::vector<std::uint32_t> shares = present_shares(job);
  if (shares != arrivals_.shares) {
    arrivals_ = {shares};
    return;
  }
  double steps = 0, last_s = 0;
  for (const WorkerView& member : job.members) {
    if (member.steps == 0) return;
    steps = std::max(steps, static_cast<double>(member.steps));
    last_s = std::max(last_s, member.compute_s);
  }
  const double weight = arrivals_.recent_s > 0 ? std::min(1.0, steps / kRecentSteps) : 1;
  arrivals_.recent_s += weight * (last_s - arrivals_.recent_s);
  arrivals_.steps += steps;
  arrivals_.sum_s += steps * last_s;
}

std::optional<Rebalance::Change> Rebalance::judge(const JobView& job, const RebalanceOptions& options, double now_s) {
  const bool is_known = arrivals_.shares == attempt_->shares && arrivals_.steps >= options.settle_steps;
  if (!is_known && job.steps_done - changed_at_steps_ < kPatience * options.settle_steps) return std::nullopt;
  const Attempt attempt = *std::exchange(attempt_, std::nullopt);
  if (!is_known || !(attempt.before_s > 0)) return std::nullopt;
  const double gain = 1 - arrivals_.mean_s() / attempt.before_s;
  if (gain >= kHelps * attempt.gain) return std::nullopt;
  char text[200];
  std::snprintf(text, sizeof text,
                "steps got %.1f %% shorter, and %.1f %% was expected: the samples are not what is slow; the shares are "
                "what they were, for ten minutes",
                100 * gain, 100 * attempt.gain);
  for (const auto& [worker, speed] : speeds_) left_alone_until_s_[worker] = now_s + kLeftAlone_s;
  speeds_ = attempt.before;
  changed_at_steps_ = job.steps_done;
  Change change{{}, {"rebalance_did_not_help", text, {{"expected", attempt.gain}, {"gain", gain}}}};
  for (const auto& [worker, speed] : speeds_) change.speeds.push_back({worker, speed});
  return change;
}

Rebalance::Speeds Rebalance::target_of(const JobView& job, const std::vector<SlowWorker>& slow,
                                       const std::vector<double>& slowdowns, const RebalanceOptions& options,
                                       double now_s) const {
  const auto is_left_alone = [&](std::uint64_t worker) {
    const auto found = left_alone_until_s_.find(worker);
    return found != left_alone_until_s_.end() && now_s < found->second;
  };
  Speeds target;
  for (std::size_t i = 0; i < job.members.size() && i < slowdowns.size(); ++i) {
    const auto own = speeds_.find(job.members[i].id);
    if (own == speeds_.end() || slowdowns[i] <= 1 + options.recovered_below) continue;
    target[own->first] = is_left_alone(own->first) ? own->second : 1 / slowdowns[i];
  }
  for (const SlowWorker& worker : slow) {
    if (!is_left_alone(worker.worker)) target[worker.worker] = 1 / std::max(worker.slowdown, 1.0);
  }
  return target;
}

std::optional<Rebalance::Change> Rebalance::decide(const JobView& job, const std::vector<SlowWorker>& slow,
                                                   const std::vector<double>& slowdowns,
                                                   const RebalanceOptions& options, double now_s) {
  if (job.changing) return std::nullopt;
  watch(job);
  if (attempt_) {
    if (auto taken_back = judge(job, options, now_s)) return taken_back;
    if (attempt_) return std::nullopt;
  }
  if (speeds_.empty() && slow.empty()) return std::nullopt;
  if (job.steps_done - changed_at_steps_ < options.settle_steps) return std::nullopt;
  Speeds target = target_of(job, slow, slowdowns, options, now_s);
  if (speeds_.empty() && target.empty()) return std::nullopt;
  const std::vector<std::uint32_t> now = present_shares(job);
  const std::vector<std::uint32_t> then = shares_of(job, target);
  const double end_now = end_of(job, now, target);
  const double gain = end_now > 0 ? 1 - end_of(job, then, target) / end_now : 0;
  const double large = kLargeGain * options.min_gain;
  const bool recovered = target.empty();  // equal shares end it, however little they bring
  if (recovered ? then == now : gain < (corrections_ < kMaxCorrections ? options.min_gain : large)) return std::nullopt;
  corrections_ = gain >= large ? 0 : corrections_ + 1;
  Change change{{}, reason_of(job, target, then, gain)};
  for (const auto& [worker, speed] : target) change.speeds.push_back({worker, speed});
  // A small gain is lost in the noise of so few steps.
  if (!recovered && gain >= kLeastJudged) attempt_ = Attempt{arrivals_.recent_s, gain, then, speeds_};
  speeds_ = std::move(target);
  changed_at_steps_ = job.steps_done;
  return change;
}

}  // namespace elastictrain::heuristics

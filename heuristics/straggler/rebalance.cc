#include "heuristics/straggler/rebalance.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace elastictrain::heuristics {
namespace {

constexpr std::uint32_t kMaxCorrections = 2;
constexpr double kLargeGain = 3;  // multiples of least_gain

using Speeds = std::map<std::uint64_t, double>;

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

std::optional<Rebalance::Change> Rebalance::decide(const JobView& job, const std::vector<SlowWorker>& slow,
                                                   const std::vector<double>& slowdowns,
                                                   const RebalanceOptions& options) {
  if (job.changing || (speeds_.empty() && slow.empty())) return std::nullopt;
  if (job.steps_done - changed_at_steps_ < options.settle_steps) return std::nullopt;
  Speeds target;
  for (std::size_t i = 0; i < job.members.size() && i < slowdowns.size(); ++i) {
    if (speeds_.count(job.members[i].id) == 0) continue;
    if (slowdowns[i] > 1 + options.recovered_below) target[job.members[i].id] = 1 / slowdowns[i];
  }
  for (const SlowWorker& worker : slow) target[worker.worker] = 1 / std::max(worker.slowdown, 1.0);

  std::vector<std::uint32_t> now;
  now.reserve(job.members.size());
  for (const WorkerView& member : job.members) now.push_back(member.share);
  const std::vector<std::uint32_t> then = shares_of(job, target);
  const double end_now = end_of(job, now, target);
  const double gain = end_now > 0 ? 1 - end_of(job, then, target) / end_now : 0;
  const double large = kLargeGain * options.min_gain;
  const bool recovered = target.empty();  // equal shares end it, however little they bring
  if (recovered ? then == now : gain < (corrections_ < kMaxCorrections ? options.min_gain : large)) return std::nullopt;
  corrections_ = gain >= large ? 0 : corrections_ + 1;
  Change change{{}, reason_of(job, target, then, gain)};
  for (const auto& [worker, speed] : target) change.speeds.push_back({worker, speed});
  speeds_ = std::move(target);
  changed_at_steps_ = job.steps_done;
  return change;
}

}  // namespace elastictrain::heuristics

#include "heuristics/autoscale/search_state.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace elastictrain::heuristics {
namespace {

constexpr double kPartsMemorySteps = 100;
// Of a size that is compared with the present one, the rest of a step has at most this multiple of its present share.
constexpr double kOtherShare = 2;

}  // namespace

void StepParts::add(const JobView& job) {
  double steps = 0;
  double step_s = 0;
  double compute_s = 0;
  for (const WorkerView& member : job.members) {
    const auto weight = static_cast<double>(member.steps);
    steps += weight;
    step_s += weight * member.step_s;
    compute_s += weight * member.compute_s;
  }
  if (!(steps > 0)) return;
  const double added = steps / static_cast<double>(job.members.size());
  steps_ = std::min(steps_ + added, std::max(kPartsMemorySteps, added));
  step_s_ += added / steps_ * (step_s / steps - step_s_);
  compute_s_ += added / steps_ * (compute_s / steps - compute_s_);
}

double unevenness(const StepParts& before, const StepParts& after) {
  if (!before.is_known() || !after.is_known()) return std::numeric_limits<double>::infinity();
  const double compute = after.compute_s() / before.compute_s();
  const double rest = after.rest_s() / before.rest_s();
  const double share = before.rest_s() / (before.compute_s() + before.rest_s());
  const double most = std::min(1.0, kOtherShare * share);
  const auto changed = [&](double rest_share) { return std::log(compute * (1 - rest_share) + rest * rest_share); };
  return std::max(std::abs(changed(most) - changed(share)), std::abs(changed(0) - changed(share)));
}

namespace {

// With this slack, a sum of normal noise exceeds its threshold about once in e^25 steps.
constexpr double kRareness = 25;
constexpr double kReferenceSteps = 100;
constexpr double kMinStepsOfChange = 10;  // that a change must last

}  // namespace

ChangeDetector::ChangeDetector(double change, double log_rate, double steps)
    : reference_(log_rate), reference_steps_(std::min(steps, kReferenceSteps)), slack_(change / 2) {}

void ChangeDetector::add(double log_rate, double steps, double noise, double usual) {
  if (reference_steps_ < kReferenceSteps) {
    reference_steps_ += steps;
    reference_ = usual;
    return;
  }
  const double off = log_rate - reference_;
  above_ = std::max(0.0, above_ + steps * (off - slack_));
  below_ = std::max(0.0, below_ + steps * (-off - slack_));
  const double threshold = std::max(kRareness * noise * noise / (2 * slack_), kMinStepsOfChange * slack_);
  changed_ = changed_ || above_ > threshold || below_ > threshold;
}

namespace {

constexpr double kHour = 3600;

bool same(const BatchRule& a, const BatchRule& b) {
  return a.per_worker == b.per_worker && a.max_global == b.max_global && a.at_limit == b.at_limit;
}

}  // namespace

void SearchState::observe(const SearchSettings& settings, const ClusterView& view, const JobView& job) {
  if (began && !same(batch, job.batch)) {
    table.forget();
    size_parts.clear();
    settled = false;
    moves = 0;
  }
  began = true;
  batch = job.batch;
  for (const auto& interval : job.intervals) {
    table.add(interval);
    if (settled && interval.workers == settled_size && !interval.warm_up && interval.steps > 0) {
      watch(interval);
    }
  }
  if (settled && job.workers == settled_size && !job.changing) watch_parts(job);
  add_parts(job);
  if (asked == job.workers && asked != 0 && is_measured(job.workers)) {
    const double took = view.now_s - asked_s;
    probe_s = probe_s > 0 ? (probe_s + took) / 2 : took;
    asked = 0;
  }
  if (asked > job.workers && !job.changing && view.now_s - asked_s > settings.give_up_s) {
    ceiling = job.workers;
    ceiling_until_s = view.now_s + kHour;
    asked = 0;
  }
  if (ceiling != 0 && view.now_s >= ceiling_until_s) ceiling = 0;
}

// The members' figures are means over all steps since the last view, which may be of two sizes.
void SearchState::add_parts(const JobView& job) {
  if (!job.changing) waiting_parts.clear();
  const bool is_of_present = std::all_of(job.intervals.begin(), job.intervals.end(),
                                         [&](const Interval& interval) { return interval.workers == job.workers; });
  if (!is_of_present) return;
  (job.changing ? waiting_parts : size_parts[job.workers]).add(job);
}

void SearchState::watch(const Interval& interval) {
  if (detector.changed()) {
    changed.push_back(interval);
    return;
  }
  detector.add(std::log(interval.samples_per_s()), static_cast<double>(interval.steps), table.step_deviation(),
               table.log_rate(interval.workers)->value);
  changed.clear();
  changed_parts.clear();
}

void SearchState::watch_parts(const JobView& job) {
  if (detector.changed()) {
    if (!changed.empty()) changed_parts.add(job);
  } else if (!detector.suspects()) {
    parts.add(job);
  }
}

void SearchState::watch_from(double change, double log_rate, double steps) {
  detector = ChangeDetector(change, log_rate, steps);
  parts.clear();
  changed_parts.clear();
  changed.clear();
}

double SearchState::changed_steps() const {
  double steps = 0;
  for (const auto& interval : changed) steps += static_cast<double>(interval.steps);
  return steps;
}

bool SearchState::is_measured(std::uint32_t workers) const {
  const auto* size = table.at(workers);
  return size && size->recent_steps >= kMinSteps && size->recent.size() >= table.intervals_needed();
}

double SearchState::steps_at(std::uint32_t workers) const {
  const auto* size = table.at(workers);
  return size ? size->recent_steps : 0;
}

}  // namespace elastictrain::heuristics

#include "heuristics/autoscale/provisioning.h"

#include <algorithm>

#include "heuristics/autoscale/format_text.h"
#include "heuristics/policy/per_job.h"

namespace elastictrain::heuristics {
namespace {

struct Steps {
  double steps = 0;
  double samples = 0;
  double seconds = 0;
  void add(const Interval& interval) {
    steps += static_cast<double>(interval.steps);
    samples += static_cast<double>(interval.samples);
    seconds += interval.seconds();
  }
  double rate() const { return samples / seconds; }
};

struct ProvisioningState {
  std::uint32_t workers = 0;
  double steps = 0;        // at this size
  Steps last;              // the last half of the steps to wait for
  Steps waiting;           // while one more worker starts
  double rate_before = 0;  // of one worker less
  bool done = false;
  bool all_paid = false;
  std::uint32_t settled = 0;
};

struct ProvisioningSettings {
  double every_steps = 800;
  double alpha = 1.0 / 3;
};

class ProvisioningPolicy final : public PerJobPolicy<ProvisioningState> {
 public:
  explicit ProvisioningPolicy(const ProvisioningSettings& settings)
      : every_(settings.every_steps), alpha_(settings.alpha) {}

 private:
  JobDecision decide_job(const ClusterView&, const JobView& job, ProvisioningState& state, Rng&) const override {
    JobDecision decision;
    observe(job, state);
    if (state.done) {
      decision.reason = {"settled", format_text("%u workers were the largest size that paid", state.settled), {}};
      decision.wants_more = state.all_paid;
      if (!job.changing && job.workers != state.settled) decision.workers = state.settled;
    } else if (job.changing) {
      decision.reason = {kChanging, format_text("on the way from %u to %u workers", job.workers, job.target), {}};
      if (state.waiting.steps >= every_ / 2 && !pays(job, state, state.waiting)) {
        settle_below(job, state, state.waiting, decision);
        decision.reason.code = kTakenBack;
      }
    } else if (state.steps < every_ || state.last.seconds <= 0) {
      decision.reason = {
          "measuring", format_text("%.0f of %.0f steps at %u workers", state.steps, every_, job.workers), {}};
    } else {
      evaluate(job, state, decision);
    }
    return decision;
  }

  void observe(const JobView& job, ProvisioningState& state) const {
    if (job.workers != state.workers) {
      const bool next = job.workers == state.workers + 1 && state.last.seconds > 0;
      state.rate_before = next ? state.last.rate() : 0;
      state.workers = job.workers;
      state.steps = 0;
      state.last = {};
    }
    const bool waits = job.changing && job.target == job.workers + 1;
    if (!waits) state.waiting = {};
    for (const auto& interval : job.intervals) {
      if (interval.workers != job.workers || interval.warm_up) continue;
      state.steps += static_cast<double>(interval.steps);
      if (state.steps > every_ / 2) state.last.add(interval);
      if (waits) state.waiting.add(interval);
    }
  }

  bool pays(const JobView& job, const ProvisioningState& state, const Steps& seen) const {
    return state.rate_before <= 0 || worth_provisioning(job.workers, seen.rate(), state.rate_before, alpha_);
  }

  void settle_below(const JobView& job, ProvisioningState& state, const Steps& seen, JobDecision& decision) const {
    settle(std::max(job.workers - 1, std::max(job.min_workers, 1U)), state);
    decision.reason = {
        "settled",
        format_text("%u workers reached %.4g samples/s, %.4g times that of %u; %.4g are required", job.workers,
                    seen.rate(), seen.rate() / state.rate_before, job.workers - 1, 1 + alpha_ / job.workers),
        {}};
    if (job.workers != state.settled || job.changing) decision.workers = state.settled;
  }

  void evaluate(const JobView& job, ProvisioningState& state, JobDecision& decision) const {
    std::uint32_t max = std::min(job.max_workers, max_workers(job.batch));
    if (job.reachable != 0) max = std::min(max, job.reachable);
    const std::uint32_t min = std::max(job.min_workers, 1U);
    if (!pays(job, state, state.last)) {
      settle_below(job, state, state.last, decision);
    } else if (job.workers >= max) {
      settle(std::max(max, min), state);
      decision.wants_more = state.all_paid = true;
      decision.reason = {"settled", format_text("all of %u workers pay", max), {}};
      if (job.workers != state.settled) decision.workers = state.settled;
    } else {
      decision.workers = job.workers + 1;
      const double rate = state.last.rate();
      decision.reason = {
          "probe", format_text("%.4g samples/s at %u workers", rate, job.workers), {{"samples_per_s", rate}}};
    }
  }

  static void settle(std::uint32_t workers, ProvisioningState& state) {
    state.done = true;
    state.settled = workers;
  }

  double every_;
  double alpha_;
};

}  // namespace

bool worth_provisioning(std::uint32_t workers, double rate, double rate_of_one_less, double alpha) {
  return rate >= (1 + alpha / workers) * rate_of_one_less;
}

PolicySpec provisioning_policy() {
  SettingsTable<ProvisioningSettings> table;
  table
      .number("every_steps", &ProvisioningSettings::every_steps, {1, 1e9}, "steps",
              "steps at each size, of which the second half counts")
      .number("alpha", &ProvisioningSettings::alpha, {0, 100}, "",
              "n workers must be 1 + alpha/n times as fast as n - 1");
  return policy_spec<ProvisioningPolicy>(
      "provisioning", "KungFu's: adds one worker at a time until one brings too little, then stays", table);
}

}  // namespace elastictrain::heuristics

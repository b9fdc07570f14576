#include "heuristics/autoscale/provisioning.h"

#include <algorithm>

#include "heuristics/autoscale/format_text.h"
#include "heuristics/policy/per_job.h"
#include "heuristics/policy/settings_table.h"

namespace elastictrain::heuristics {
namespace {

struct ProvisioningState {
  std::uint32_t workers = 0;
  double steps = 0;    // at this size
  double samples = 0;  // of the last half of the steps to wait for
  double seconds = 0;
  double rate_before = 0;  // of one worker less
  bool done = false;
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
      if (!job.changing && job.workers != state.settled) decision.workers = state.settled;
    } else if (job.changing) {
      decision.reason = {kChanging, format_text("on the way from %u to %u workers", job.workers, job.target), {}};
    } else if (state.steps < every_ || state.seconds <= 0) {
      decision.reason = {
          "measuring", format_text("%.0f of %.0f steps at %u workers", state.steps, every_, job.workers), {}};
    } else {
      evaluate(job, state, decision);
    }
    return decision;
  }

  void observe(const JobView& job, ProvisioningState& state) const {
    if (job.workers != state.workers) {
      const bool next = job.workers == state.workers + 1 && state.seconds > 0;
      state.rate_before = next ? state.samples / state.seconds : 0;
      state.workers = job.workers;
      state.steps = state.samples = state.seconds = 0;
    }
    for (const auto& interval : job.intervals) {
      if (interval.workers != job.workers || interval.warm_up) continue;
      state.steps += static_cast<double>(interval.steps);
      if (state.steps <= every_ / 2) continue;
      state.samples += static_cast<double>(interval.samples);
      state.seconds += interval.seconds();
    }
  }

  void evaluate(const JobView& job, ProvisioningState& state, JobDecision& decision) const {
    const double rate = state.samples / state.seconds;
    std::uint32_t max = std::min(job.max_workers, max_workers(job.batch));
    if (job.reachable != 0) max = std::min(max, job.reachable);
    const std::uint32_t min = std::max(job.min_workers, 1U);
    if (state.rate_before > 0 && !worth_provisioning(job.workers, rate, state.rate_before, alpha_)) {
      settle(std::max(job.workers - 1, min), state);
      decision.reason = {
          "settled",
          format_text("%u workers reached %.4g samples/s, %.4g times that of %u; %.4g are required", job.workers, rate,
                      rate / state.rate_before, job.workers - 1, 1 + alpha_ / job.workers),
          {}};
      if (job.workers != state.settled) decision.workers = state.settled;
    } else if (job.workers >= max) {
      settle(std::max(max, min), state);
      decision.reason = {"settled", format_text("all of %u workers pay", max), {}};
      if (job.workers != state.settled) decision.workers = state.settled;
    } else {
      decision.workers = job.workers + 1;
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

#include "heuristics/batch/adasgd.h"

#include <limits>
#include <memory>
#include <string>

#include "heuristics/autoscale/format_text.h"
#include "heuristics/policy/per_job.h"

namespace elastictrain::heuristics {
namespace {

struct Nothing {};

struct AdaSgdSettings {
  double until_step = 0;
  double above_workers = 16;
  std::string averaging = "averaging";
};

class AdaSgd final : public PerJobPolicy<Nothing> {
 public:
  explicit AdaSgd(const AdaSgdSettings& settings) : settings_(settings) {}

 private:
  JobDecision decide_job(const ClusterView&, const JobView& job, Nothing&, Rng&) const override {
    const bool early = job.steps_done < settings_.until_step;
    const bool large = settings_.above_workers != 0 && job.workers > settings_.above_workers;
    const std::string target = early || large ? settings_.averaging : "s-sgd";
    JobDecision decision;
    decision.reason = {
        early ? "early" : (large ? "large" : "gradients"),
        format_text("%s after %.0f steps (averaging until %.0f) with %u workers (averaging above %.0f)", target.c_str(),
                    job.steps_done, settings_.until_step, job.workers, settings_.above_workers),
        {{"steps", job.steps_done}, {"size", job.workers}}};
    if (!job.changing && job.workers != 0 && job.synchronization != target) decision.synchronization = target;
    return decision;
  }

  AdaSgdSettings settings_;
};

}  // namespace

PolicySpec adasgd_policy() {
  SettingsTable<AdaSgdSettings> table;
  table
      .number("until_step", &AdaSgdSettings::until_step, {0, 1e15}, "steps",
              "average models in the steps up to this one")
      .number("above_workers", &AdaSgdSettings::above_workers,
              {0, static_cast<double>(std::numeric_limits<std::uint32_t>::max())}, "workers",
              "average models while there are more workers; 0: at no size")
      .text("averaging", &AdaSgdSettings::averaging, {"averaging", "pair-averaging"},
            "average with all other workers, or with one other worker in each step");
  PolicySpec spec = policy_spec<AdaSgd>(
      "adasgd", "averages models early in training or with many workers, gradients otherwise; keeps the size", table);
  spec.decides_size = false;
  return spec;
}

}  // namespace elastictrain::heuristics

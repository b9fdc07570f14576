#include "heuristics/batch/adasgd.h"

#include <limits>
#include <memory>
#include <string>

#include "heuristics/autoscale/words.h"
#include "heuristics/policy/per_job.h"

namespace elastictrain::heuristics {
namespace {

struct Nothing {};

class AdaSgd final : public PerJobPolicy<Nothing> {
 public:
  AdaSgd(double until_step, double above_workers, std::string averaging)
      : until_step_(until_step), above_workers_(above_workers), averaging_(std::move(averaging)) {}

 private:
  JobDecision decide_job(const ClusterView&, const JobView& job, Nothing&, Rng&) const override {
    const bool early = job.steps_done < until_step_;
    const bool large = above_workers_ != 0 && job.workers > above_workers_;
    const std::string wanted = early || large ? averaging_ : "s-sgd";
    JobDecision decision;
    decision.reason = {early ? "early" : (large ? "large" : "gradients"),
                       words("%s after %.0f steps (averaging until %.0f) with %u workers (averaging above %.0f)",
                             wanted.c_str(), job.steps_done, until_step_, job.workers, above_workers_),
                       {{"steps", job.steps_done}, {"workers", job.workers}}};
    if (!job.changing && job.workers != 0 && job.synchronization != wanted) decision.synchronization = wanted;
    return decision;
  }

  double until_step_;
  double above_workers_;
  std::string averaging_;
};

}  // namespace

PolicySpec adasgd_policy() {
  constexpr double kMost = std::numeric_limits<std::uint32_t>::max();
  return {"adasgd",
          "averages models early in training or with many workers, gradients otherwise; keeps the size",
          {{"until_step", 0.0, 0, 1e15, {}, "last step in which models are averaged"},
           {"above_workers", 16.0, 0, kMost, {}, "models are averaged with more workers than this; 0: at no size"},
           {"averaging",
            std::string("averaging"),
            0,
            0,
            {"averaging", "pair-averaging"},
            "with all other workers, or with one in each step"}},
          [](const Parameters& parameters) {
            return std::make_unique<AdaSgd>(number(parameters, "until_step"), number(parameters, "above_workers"),
                                            text(parameters, "averaging"));
          },
          false};
}

}  // namespace elastictrain::heuristics

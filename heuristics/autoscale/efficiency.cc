#include "heuristics/autoscale/efficiency.h"

#include <algorithm>
#include <cmath>

#include "heuristics/autoscale/format_text.h"
#include "heuristics/autoscale/search_policy.h"

namespace elastictrain::heuristics {
namespace {

struct EfficiencySettings : SearchSettings {
  double target = 0.5;
};

class EfficiencyPolicy final : public SearchPolicy {
 public:
  explicit EfficiencyPolicy(const EfficiencySettings& settings) : SearchPolicy(settings), target_(settings.target) {}

 private:
  Objective objective(const ClusterView&, const JobView&) const override { return efficiency_objective(target_); }

  std::string comparison(const Measured& from, const Measured& to) const override {
    const double gained = marginal_efficiency(from.workers, from.log_rate, to.workers, to.log_rate);
    return format_text("efficiency of %u->%u was %.*f %s %g", from.workers, to.workers, digits_apart(gained, target_),
                       gained, gained > target_ ? ">" : "<", target_);
  }

  double target_;
};

struct CostSettings : SearchSettings {
  std::string utility = "linear:100,10800";
  double price_per_worker_hour = 1;
};

class CostPolicy final : public SearchPolicy {
 public:
  explicit CostPolicy(const CostSettings& settings)
      : SearchPolicy(settings),
        utility_(parse_utility(settings.utility)),
        price_per_hour_(settings.price_per_worker_hour) {}

 private:
  std::string problem(const JobView& job) const override {
    if (!utility_.problem.empty()) return utility_.problem;
    const bool is_line = job.utility.empty() && utility_.kind == UtilityText::Kind::kLinear;
    if (!is_line && job.samples_total <= 0) return "a utility of several lines needs a job with a known end";
    return "";
  }

  Objective objective(const ClusterView& view, const JobView& job) const override {
    // Without a known end, a linear utility still gives the value of a second and the cost of a worker for any number
    // of samples.
    const double rest = job.samples_total > 0 ? std::max(job.samples_total - job.samples_done, 1.0) : 1e6;
    return cost_objective(utility_of(job, utility_, job.samples_total > 0 ? expected_s(view, job) : 0),
                          Prices(view.hosts, job, price_per_hour_), view.now_s, rest);
  }

  // Expected duration of the whole job at its average speed so far.
  static double expected_s(const ClusterView& view, const JobView& job) {
    return job.samples_done > 0 ? view.now_s * job.samples_total / job.samples_done : 0;
  }

  std::string comparison(const Measured& from, const Measured& to) const override {
    return format_text("%u->%u workers: the remaining loss (utility and cost) changes by a factor of %.3f",
                       from.workers, to.workers, std::exp(from.value - to.value));
  }

  UtilityText utility_;
  double price_per_hour_;
};

}  // namespace

PolicySpec efficiency_policy() {
  SettingsTable<EfficiencySettings> table;
  table.number("target", &EfficiencySettings::target, {0, 1}, "",
               "marginal efficiency that added workers must keep; 0: the shortest time; 1: the fewest worker-seconds");
  add_search_parameters(table);
  return policy_spec<EfficiencyPolicy>(
      "efficiency", "the size up to which added workers keep the target share of their capacity", table);
}

PolicySpec cost_policy() {
  SettingsTable<CostSettings> table;
  table
      .checked_text(
          "utility", &CostSettings::utility, problem_of_utility, kUtilityTable,
          "value of the finished job: linear:VALUE,SECONDS, step:VALUE:SECONDS,... or a table [[SECONDS, VALUE], "
          "...], on the command line table:SECONDS:VALUE,...")
      .number("price_per_worker_hour", &CostSettings::price_per_worker_hour, {0, 1e6}, "",
              "price of a worker for an hour where hosts have no price");
  add_search_parameters(table);
  return policy_spec<CostPolicy>("cost", "the size at which finishing earlier is worth the cost of its workers", table);
}

}  // namespace elastictrain::heuristics

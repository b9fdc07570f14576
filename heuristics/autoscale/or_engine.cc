#include "heuristics/autoscale/or_engine.h"

#include <algorithm>
#include <vector>

#include "heuristics/autoscale/format_text.h"
#include "heuristics/cost/cost.h"
#include "heuristics/policy/per_job.h"

namespace elastictrain::heuristics {
namespace {

struct OrState {
  ThroughputTable table;
  std::uint32_t workers = 0;
  double steps_since_change = 0;
  double next_decision = 0;     // in steps since the change
  double expected_total_s = 0;  // at the first measured size
  std::uint32_t asked = 0;      // the size requested last
};

struct OrSettings {
  double decide_every_steps = 10;
  OrRules rules;
  double efficiency = 0.1;
  std::string utility;
  double price_per_worker_hour = 1;
};

class OrPolicy final : public PerJobPolicy<OrState> {
 public:
  explicit OrPolicy(const OrSettings& settings)
      : rules_(settings.rules),
        every_(settings.decide_every_steps),
        threshold_(settings.efficiency),
        price_per_hour_(settings.price_per_worker_hour),
        with_utility_(!settings.utility.empty()),
        utility_(parse_utility(with_utility_ ? settings.utility : "linear:0,1")) {}

 private:
  JobDecision decide_job(const ClusterView& view, const JobView& job, OrState& state, Rng&) const override {
    JobDecision decision;
    observe(view, job, state);
    if (!utility_.problem.empty()) {
      decision.reason = {"cannot_decide", utility_.problem, {}};
    } else if (job.changing) {
      decision.reason = {kChanging, format_text("on the way from %u to %u workers", job.workers, job.target), {}};
      if (state.asked == job.target && job.target > job.workers) evaluate_again(view, job, state, decision);
    } else if (state.steps_since_change < std::max(state.next_decision, every_) || !state.table.at(job.workers)) {
      decision.reason = {
          "measuring",
          format_text("%.0f steps since the change to %u workers", state.steps_since_change, job.workers),
          {}};
    } else {
      evaluate(view, job, state, decision);
      state.asked = decision.workers.value_or(job.workers);
    }
    return decision;
  }

  // While the workers of a larger size start: whether the rule still asks for as many, with the steps since.
  void evaluate_again(const ClusterView& view, const JobView& job, OrState& state, JobDecision& decision) const {
    if (state.steps_since_change < state.next_decision || !state.table.at(job.workers)) return;
    JobDecision now;
    evaluate(view, job, state, now);
    const std::uint32_t wanted = now.workers.value_or(job.workers);
    if (wanted >= job.target) return;
    state.asked = wanted;
    decision = std::move(now);
    decision.workers = wanted;
    decision.reason.code = kTakenBack;
  }

  static void observe(const ClusterView& view, const JobView& job, OrState& state) {
    if (job.workers != state.workers) {
      state.workers = job.workers;
      state.steps_since_change = 0;
      state.next_decision = 0;
    }
    state.table.add(job.intervals);
    for (const auto& interval : job.intervals) {
      if (interval.workers == job.workers && !interval.warm_up)
        state.steps_since_change += static_cast<double>(interval.steps);
    }
    const auto* here = state.table.at(job.workers);
    if (state.expected_total_s == 0 && here && job.samples_total > 0) {
      state.expected_total_s = view.now_s + (job.samples_total - job.samples_done) / here->mean_samples_per_s;
    }
  }

  // The text of the last comparison that failed, or of the last comparison.
  struct Comparisons {
    std::string text;
    bool failed = false;
    void note(bool pass, std::string what) {
      if (failed) return;
      failed = !pass;
      text = std::move(what);
    }
  };

  void evaluate(const ClusterView& view, const JobView& job, OrState& state, JobDecision& decision) const {
    state.next_decision = state.steps_since_change + every_;
    OrRules rules = rules_;
    rules.min = std::max(job.min_workers, 1U);
    rules.max = std::min(job.max_workers, max_workers(job.batch));
    if (job.reachable != 0) rules.max = std::min(rules.max, job.reachable);
    rules.max = std::max(rules.max, rules.min);
    Comparisons comparisons;
    const Prices prices(view.hosts, job, price_per_hour_);
    const OrStep step = or_step(state.table.sizes(), job.workers, rules, [&](std::uint32_t less, std::uint32_t more) {
      const TwoSizes sizes{less, state.table.at(less)->mean_samples_per_s, more,
                           state.table.at(more)->mean_samples_per_s};
      return with_utility_ || !job.utility.empty() ? utility_passes(view, job, state, prices, sizes, comparisons)
                                                   : efficiency_passes(sizes, comparisons);
    });
    const auto target = static_cast<std::uint32_t>(static_cast<std::int64_t>(job.workers) + step.change);
    decision.reason = {step.change == 0 ? "settled" : "resize",
                       step.why + (comparisons.text.empty() ? "" : ": ") + comparisons.text,
                       {{"change", step.change}}};
    if (target != job.workers) decision.workers = target;
    decision.wants_more = target == rules.max && !comparisons.failed && !comparisons.text.empty();
  }

  struct TwoSizes {
    std::uint32_t less;
    double slow;  // samples per second
    std::uint32_t more;
    double fast;
  };

  bool efficiency_passes(const TwoSizes& sizes, Comparisons& all) const {
    const auto [less, slow, more, fast] = sizes;
    const double found = scaling_efficiency(less, slow, more, fast);
    const bool pass = found > threshold_;
    all.note(pass, format_text("efficiency of %u->%u was %.*f %s %g", less, more, digits_apart(found, threshold_),
                               found, pass ? ">" : "<=", threshold_));
    return pass;
  }

  bool utility_passes(const ClusterView& view, const JobView& job, const OrState& state, const Prices& prices,
                      const TwoSizes& sizes, Comparisons& all) const {
    const auto [less, slow, more, fast] = sizes;
    const double rest = std::max(job.samples_total - job.samples_done, 0.0);
    const Utility utility = utility_of(job, utility_, state.expected_total_s);
    const double gained = utility(view.now_s + rest / fast) - utility(view.now_s + rest / slow);
    const double added = rest / fast * prices.per_s(more) - rest / slow * prices.per_s(less);
    const bool pass = gained > added;
    all.note(pass, format_text("utility of %u->%u rises by %.4g, cost by %.4g", less, more, gained, added));
    return pass;
  }

  OrRules rules_;
  double every_;
  double threshold_;
  double price_per_hour_;
  bool with_utility_;
  UtilityText utility_;
};

}  // namespace

OrStep or_step(const std::map<std::uint32_t, SizeStatistics>& sizes, std::uint32_t current, const OrRules& rules,
               const std::function<bool(std::uint32_t, std::uint32_t)>& pass) {
  std::vector<std::uint32_t> ks;
  for (const auto& [workers, size] : sizes) ks.push_back(workers);
  const auto to = [&](std::int64_t target, const char* why) {
    target = std::clamp<std::int64_t>(target, rules.min, rules.max);
    return OrStep{static_cast<int>(target - current), why};
  };
  const auto d = static_cast<std::int64_t>(rules.increment);
  if (ks.empty()) return {0, "nothing measured"};
  if (ks.size() == 1) return to(current < rules.max ? current + d : current - d, "second size");

  std::vector<bool> passes;
  for (std::size_t i = 0; i + 1 < ks.size(); ++i) passes.push_back(pass(ks[i], ks[i + 1]));
  const auto first_failure = static_cast<std::size_t>(std::find(passes.begin(), passes.end(), false) - passes.begin());
  if (first_failure == passes.size() && ks.back() < rules.max) return to(ks.back() + d, "keep growing");
  // As in the published code: if fewer pairs than required exist, the condition fails.
  if (first_failure < rules.min_consecutive_passes && ks.front() > rules.min) return to(ks.front() - d, "probe below");
  if (first_failure + 1 < ks.size() && sizes.at(ks[first_failure + 1]).steps < rules.min_batches_for_staying) {
    return to(ks[first_failure + 1], "collect more");
  }
  return to(ks[first_failure], "settle");
}

PolicySpec or_policy() {
  SettingsTable<OrSettings> table;
  table
      .number("decide_every_steps", &OrSettings::decide_every_steps, {1, 1e6}, "steps",
              "N: steps between decisions, and between a change and the first decision")
      .whole(
          "increment", [](OrSettings& all) -> std::uint32_t& { return all.rules.increment; }, {1, 1e5}, "workers",
          "d: workers added or removed at a time")
      .number("efficiency", &OrSettings::efficiency, {-1, 1}, "", "S: scaling efficiency above which growing pays")
      .whole(
          "min_consecutive_passes", [](OrSettings& all) -> std::uint32_t& { return all.rules.min_consecutive_passes; },
          {0, 1e5}, "", "pairs of sizes that must pass, counted from the smallest size; with fewer it probes below")
      .number(
          "min_batches_for_staying", [](OrSettings& all) -> double& { return all.rules.min_batches_for_staying; },
          {0, 1e9}, "steps", "steps at the first size that did not pass before it settles")
      .checked_text(
          "utility", &OrSettings::utility,
          [](const std::string& text) { return text.empty() ? "" : problem_of_utility(text); }, kUtilityTable,
          "replaces S: linear:VALUE,SECONDS, step:VALUE:SECONDS,... or a table [[SECONDS, VALUE], ...], on the command "
          "line table:SECONDS:VALUE,...")
      .number("price_per_worker_hour", &OrSettings::price_per_worker_hour, {0, 1e6}, "",
              "with utility: price of a worker for an hour where hosts have no price");
  return policy_spec<OrPolicy>("or", "the autoscaling engine of Or et al. 2020 as published", table);
}

}  // namespace elastictrain::heuristics

#include "heuristics/autoscale/search_policy.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "heuristics/autoscale/format_text.h"
#include "heuristics/autoscale/search_limits.h"

namespace elastictrain::heuristics {
namespace {

constexpr double kMuchMorePrecise = 1.0 / 3;
constexpr double kManySteps = 60;  // to resolve small differences
constexpr double kUneven = 0.05;   // of the parts of a step: below it all sizes are taken to have changed alike
constexpr double kLongestQuiet_s = 2 * 3600;

}  // namespace

JobDecision SearchPolicy::decide_job(const ClusterView& view, const JobView& job, SearchState& state, Rng&) const {
  JobDecision decision;
  state.observe(settings_, view, job);
  const SearchLimits limits = search_limits(settings_, view, job, state);
  if (auto why = problem(job); !why.empty()) {
    decision.reason = {"cannot_decide", std::move(why), {}};
  } else if (job.workers == 0 || job.workers < limits.min || job.workers > limits.max) {
    const std::uint32_t within = std::clamp(job.workers, limits.min, limits.max);
    move(view, job, state, within,
         {"limit", format_text("%u workers are outside of %u to %u", job.workers, limits.min, limits.max), {}},
         decision);
  } else if (job.changing) {
    decision.reason = {kChanging, format_text("on the way from %u to %u workers", job.workers, job.target), {}};
    if (no_longer_pays(view, job, state)) take_back(job, state, decision);
  } else {
    search(view, job, limits, state, decision);
  }
  return decision;
}

// If the steps change while the workers of a larger size start, those may no longer pay. The job is then one that has
// changed, as after a search: it may change again, so little that is gained until its end is no reason. What has begun
// costs half.
bool SearchPolicy::no_longer_pays(const ClusterView& view, const JobView& job, const SearchState& state) const {
  const bool is_probe = !state.settled && !state.follows_change && state.asked == job.target;
  const auto before = state.size_parts.find(job.workers);
  if (!is_probe || job.target <= job.workers || before == state.size_parts.end()) return false;
  if (state.waiting_parts.steps() < kEnoughSteps) return false;
  const double changed = unevenness(before->second, state.waiting_parts);
  if (!std::isfinite(changed) || changed < kUneven) return false;
  SearchState anew = state;
  anew.follows_change = true;
  anew.moves = 0;
  SearchLimits limits = search_limits(settings_, view, job, anew);
  const Objective value = objective(view, job);
  auto sizes = measured_sizes(anew, value, limits);
  const auto here =
      std::find_if(sizes.begin(), sizes.end(), [&](const Measured& size) { return size.workers == job.workers; });
  if (here == sizes.end()) return false;
  here->parts = parts_of(limits.batch, job.workers, here->log_rate, state.waiting_parts.rest_share());
  limits.least /= 2;
  limits.probe_s /= 2;
  const auto probe = next_probe(sizes, value, limits);
  return !probe || probe->workers <= job.workers;
}

// The search begins anew, with what is measured from now on.
void SearchPolicy::take_back(const JobView& job, SearchState& state, JobDecision& decision) {
  state.table.forget();
  state.size_parts.clear();
  state.size_parts[job.workers] = state.waiting_parts;
  state.follows_change = true;
  state.moves = 0;
  state.asked = 0;
  decision.workers = job.workers;
  decision.reason = {
      kTakenBack, format_text("steps of %u workers now say that %u would not pay", job.workers, job.target), {}};
}

void SearchPolicy::search(const ClusterView& view, const JobView& job, const SearchLimits& limits, SearchState& state,
                          JobDecision& decision) const {
  const Objective value = objective(view, job);
  if (state.settled) wake(view, job, limits, value, state);
  const auto sizes = measured_sizes(state, value, limits);
  if (state.settled && overtaken(value, sizes, state)) state.settled = false;
  if (state.settled) {
    stay(view, job, limits, value, sizes, state, decision);
    return;
  }
  const double steps = state.steps_at(job.workers);
  if (!state.is_measured(job.workers) || sizes.empty()) {
    decision.reason = too_few(job, state);
    return;
  }
  if (const std::uint32_t guess = std::exchange(state.guess, 0); guess != 0 && guess != job.workers) {
    Reason reason{"probe",
                  format_text("the job has changed, and %u workers may now be best: %s", guess,
                              about(sizes, at(sizes, job.workers)).c_str()),
                  {}};
    move(view, job, state, guess, std::move(reason), decision);
    return;
  }
  const Measured& best = sizes[best_of(sizes)];
  const bool hidden = undecided(job, limits, sizes, best, state, decision);
  if (hidden && limits.may_probe && !limits.in_vain && measures_better(job, best, state)) {
    Reason reason{"measuring_better",
                  format_text("%u workers look better and are measured less: %s", best.workers,
                              about(sizes, at(sizes, job.workers)).c_str()),
                  {}};
    move(view, job, state, best.workers, std::move(reason), decision);
    return;
  }
  if (hidden && !precise(limits, state, job.workers)) return;
  if (const auto probe = next_probe(sizes, value, limits)) {
    // A smaller size cannot be undone at once, because joiners take time to start. So before a job shrinks, its size
    // is measured for longer.
    if (probe->workers < job.workers && sizes.size() == 1 && !precise(limits, state, job.workers)) {
      decision.reason = {
          "measuring", format_text("%.0f steps at %u workers before fewer are tried", steps, job.workers), {}};
      return;
    }
    if (limits.max_steps > kMaxSteps && sizes.size() > 1 && job.workers == best.workers &&
        !precise(limits, state, job.workers)) {
      decision.reason = {"measuring",
                         format_text("%.0f steps at %u workers, the best so far, before %u are tried", steps,
                                     job.workers, probe->workers),
                         {}};
      return;
    }
    // At the best of several sizes, measuring costs nothing and resolves small differences. This does not hold for
    // the first size, whose quality is not known.
    if (sizes.size() > 1 && job.workers == best.workers && probe->improvement < 2 * settings_.tolerance &&
        steps < kManySteps) {
      decision.reason = {"measuring",
                         format_text("%.0f of %.0f steps at %u workers before %u are tried", steps, kManySteps,
                                     job.workers, probe->workers),
                         {}};
      return;
    }
    Reason reason{"probe",
                  format_text("%u workers are expected to improve on the best by %.1f %%: %s", probe->workers,
                              100 * std::expm1(probe->improvement), about(sizes, at(sizes, job.workers)).c_str()),
                  {{"improvement", probe->improvement}}};
    if (state.asked != probe->workers) count_gain(sizes, best, state);
    move(view, job, state, probe->workers, std::move(reason), decision);
    return;
  }
  if (hidden) return;
  settle(view, sizes, limits, state);
  stay(view, job, limits, value, sizes, state, decision);
}

Reason SearchPolicy::too_few(const JobView& job, const SearchState& state) {
  const double steps = state.steps_at(job.workers);
  if (steps < kMinSteps) {
    return {"measuring", format_text("%.0f of %.0f steps at %u workers", steps, kMinSteps, job.workers), {}};
  }
  return {"measuring",
          format_text("%zu of %zu views at %u workers, because some steps take many times as long",
                      state.table.at(job.workers)->recent.size(), state.table.intervals_needed(), job.workers),
          {}};
}

void SearchPolicy::count_gain(const std::vector<Measured>& sizes, const Measured& best, SearchState& state) const {
  const auto before =
      std::find_if(sizes.begin(), sizes.end(), [&](const Measured& size) { return size.workers == state.best_before; });
  const bool gained = before == sizes.end() ||
                      best.value - before->value > settings_.tolerance + std::hypot(best.deviation, before->deviation);
  state.in_vain = gained ? 0 : state.in_vain + 1;
  state.best_before = best.workers;
}

const Measured& SearchPolicy::at(const std::vector<Measured>& sizes, std::uint32_t workers) {
  return *std::find_if(sizes.begin(), sizes.end(), [&](const Measured& size) { return size.workers == workers; });
}

bool SearchPolicy::precise(const SearchLimits& limits, const SearchState& state, std::uint32_t workers) const {
  const auto rate = state.table.log_rate(workers);
  return rate && (settings_.confidence * rate->deviation < 3 * settings_.tolerance ||
                  state.steps_at(workers) >= limits.max_steps);
}

// Whether noise hides which of this size and its strongest rival is better.
bool SearchPolicy::undecided(const JobView& job, const SearchLimits& limits, const std::vector<Measured>& sizes,
                             const Measured& best, const SearchState& state, JobDecision& decision) const {
  const Measured& here = at(sizes, job.workers);
  const Measured* rival = nullptr;
  for (const auto& size : sizes) {
    if (size.workers != here.workers && (!rival || size.value > rival->value)) rival = &size;
  }
  if (!rival || state.steps_at(job.workers) >= limits.max_steps) return false;
  if (here.workers != best.workers && rival->workers != best.workers) rival = &best;
  const double noise = settings_.confidence * std::hypot(here.deviation, rival->deviation);
  if (here.deviation < kMuchMorePrecise * rival->deviation) return false;  // more steps here would not tell
  if (noise < settings_.tolerance || std::abs(here.value - rival->value) > noise) return false;
  decision.reason = {"measuring", format_text("%s, known to %.2f", comparison(*rival, here).c_str(), noise), {}};
  return true;
}

// Whether more is learned, and for less, at the best size than here. Fewer workers are there at once.
bool SearchPolicy::measures_better(const JobView& job, const Measured& best, const SearchState& state) {
  const double steps = state.steps_at(job.workers);
  return best.workers < job.workers && !state.follows_change && steps >= kEnoughSteps &&
         state.steps_at(best.workers) < steps;
}

// Settles at the smallest of the sizes that are equally good.
void SearchPolicy::settle(const ClusterView& view, const std::vector<Measured>& sizes, const SearchLimits& limits,
                          SearchState& state) const {
  const Measured& best = sizes[smallest_good(sizes, settings_.tolerance / 10)];
  const bool again = state.settled_size == best.workers;
  state.quiet_s = !again ? 0 : state.quiet_s > 0 ? std::min(2 * state.quiet_s, kLongestQuiet_s) : settings_.quiet_s;
  state.quiet_until_s = view.now_s + state.quiet_s;
  state.settled = true;
  state.in_vain = 0;
  state.settled_size = best.workers;
  state.settled_max = limits.max;
  const auto rate = state.table.log_rate(best.workers);
  state.watch_from(settings_.change, rate ? rate->value : best.log_rate, state.steps_at(best.workers));
}

// Stays settled until the job changes, or until more workers become available and the largest size was the best one.
void SearchPolicy::wake(const ClusterView& view, const JobView& job, const SearchLimits& limits, const Objective& value,
                        SearchState& state) const {
  if (state.settled_size > limits.max || state.settled_size < limits.min ||
      (limits.max > state.settled_max && state.settled_size == state.settled_max)) {
    state.settled = false;
    state.moves = 0;
  } else if (state.detector.changed() && state.changed_steps() >= kEnoughSteps) {
    follow_change(view, job, limits, value, state);
  }
}

// The rates of other sizes are those of before the change. They changed with the present one, or are worth nothing.
void SearchPolicy::follow_change(const ClusterView& view, const JobView& job, const SearchLimits& limits,
                                 const Objective& value, SearchState& state) const {
  const std::size_t needed = state.table.intervals_needed();
  if (state.changed.size() < needed) return;
  const double log_rate = *state.table.log_rate_of(state.changed);
  if (std::abs(log_rate - state.detector.reference()) < settings_.change / 2) {
    state.watch_from(settings_.change, state.detector.reference(), state.steps_at(state.settled_size));
    return;
  }
  const bool alike = unevenness(state.parts, state.changed_parts) < kUneven;
  if (alike || view.now_s < state.quiet_until_s) {
    state.table.shift(log_rate - state.detector.reference());
  } else {
    state.settled = false;
    state.follows_change = true;
    state.moves = 0;
    state.guess = size_after_change(job, limits, value, state);
    state.table.forget();
    state.size_parts.clear();
  }
  state.table.forget(state.settled_size);
  state.table.add(state.changed);
  state.size_parts[state.settled_size] = state.changed_parts;
  state.watch_from(settings_.change, log_rate, state.changed_steps());
}

// As time passes, a utility may favour another of the measured sizes. The present size is compared as it was when the
// others were measured.
bool SearchPolicy::overtaken(const Objective& value, const std::vector<Measured>& sizes,
                             const SearchState& state) const {
  if (state.detector.suspects() || state.detector.changed()) return false;
  const Measured& best = sizes[best_of(sizes)];
  const Measured& settled = at(sizes, state.settled_size);
  const double noise = std::hypot(best.deviation, settled.deviation);
  const double then = std::max(settled.value, value(settled.workers, state.detector.reference()));
  return best.value - then > 2 * settings_.tolerance + settings_.confidence * noise;
}

void SearchPolicy::stay(const ClusterView& view, const JobView& job, const SearchLimits& limits, const Objective& value,
                        const std::vector<Measured>& sizes, SearchState& state, JobDecision& decision) const {
  const Measured& best = at(sizes, state.settled_size);
  Reason reason{"settled", about(sizes, best), {{"size", best.workers}, {"samples_per_s", std::exp(best.log_rate)}}};
  if (job.workers == best.workers) {
    decision.reason = std::move(reason);
    decision.wants_more = job.workers == limits.max && pays_beyond(limits, value, sizes);
  } else {
    reason.code = "found";
    move(view, job, state, best.workers, std::move(reason), decision);
  }
}

// Whether a size above the limit would be tried, if there were one.
bool SearchPolicy::pays_beyond(SearchLimits limits, const Objective& value, const std::vector<Measured>& sizes) {
  const std::uint32_t most = std::exchange(limits.max, 2 * limits.max);
  limits.may_probe = true;
  const auto probe = next_probe(sizes, value, limits);
  return probe && probe->workers > most;
}

// The comparisons with the next smaller and the next larger size.
std::string SearchPolicy::about(const std::vector<Measured>& sizes, const Measured& size) const {
  const auto place = static_cast<std::size_t>(&size - sizes.data());
  std::string text;
  if (place + 1 < sizes.size()) text = comparison(size, sizes[place + 1]);
  if (place > 0) text += (text.empty() ? "" : "; ") + comparison(sizes[place - 1], size);
  return text.empty() ? format_text("%.4g samples/s at %u workers", std::exp(size.log_rate), size.workers) : text;
}

void SearchPolicy::move(const ClusterView& view, const JobView& job, SearchState& state, std::uint32_t workers,
                        Reason reason, JobDecision& decision) {
  if (state.asked != workers) {
    state.asked = workers;
    state.asked_s = view.now_s;
    ++state.moves;
  }
  if (workers != job.target || workers != job.workers) decision.workers = workers;
  decision.reason = std::move(reason);
}

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

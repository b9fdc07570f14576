#include "heuristics/autoscale/efficiency.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "heuristics/autoscale/change_detector.h"
#include "heuristics/autoscale/format_text.h"
#include "heuristics/autoscale/objective.h"
#include "heuristics/autoscale/parts_estimate.h"
#include "heuristics/autoscale/search.h"
#include "heuristics/autoscale/smoothing.h"
#include "heuristics/autoscale/step_parts.h"
#include "heuristics/autoscale/throughput_table.h"
#include "heuristics/policy/per_job.h"
#include "heuristics/policy/settings_table.h"

namespace elastictrain::heuristics {
namespace {

constexpr double kHour = 3600;
constexpr double kMinSteps = 5;         // before any verdict on a size
constexpr double kEnoughSteps = 20;     // usual number of steps to measure a size
constexpr double kManySteps = 60;       // to resolve small differences
constexpr double kMaxSteps = 150;       // after these the better mean decides
constexpr double kUnknownStart_s = 30;  // assumed until a worker has started
// By which an improvement is larger that is worth a look after a change; doubled with every look after the second.
constexpr double kAfterChange = 4;
// A job that lasts for more probes than the usual one looks for smaller improvements, down to a tenth, and measures for
// up to three times as long.
constexpr double kProbesOfUsualJob = 200;
constexpr double kMaxPatience = 10;
constexpr double kLongestProbe = 3;  // of the usual number of steps
constexpr double kPatientMoves = 4;  // after which the least improvement doubles with each, up to the usual one
constexpr double kUneven = 0.05;     // of the parts of a step: below it all sizes are taken to have changed alike
constexpr double kLongestQuiet_s = 2 * kHour;
constexpr double kNoEndHorizon_s = 600;

struct SearchSettings {
  double tolerance = 0.02;
  double confidence = 2.5;
  double change = 0.1;
  double quiet_s = 600;
  double give_up_s = 600;
};

struct SearchState {
  ThroughputTable table;
  BatchRule batch;
  bool began = false;

  bool settled = false;
  std::uint32_t settled_size = 0;
  std::uint32_t settled_max = 0;
  ChangeDetector detector;
  StepParts parts;  // while nothing was off
  std::map<std::uint32_t, StepParts> size_parts;
  StepParts waiting_parts;      // at the present size while more workers are starting
  StepParts changed_parts;      // since the detector reported a change
  Interval changed;             // the same steps; without any: no change is reported
  std::uint32_t guess = 0;      // what may be best after a change that was not alike for all sizes; 0: none
  bool follows_change = false;  // the search, or what it has settled on
  std::uint32_t moves = 0;      // of that search
  double quiet_until_s = 0;
  double quiet_s = 0;

  std::uint32_t asked = 0;  // the size requested last; 0: none
  double asked_s = 0;
  double probe_s = 0;         // from the request of a size to a verdict on it; 0: none was tried
  std::uint32_t ceiling = 0;  // larger sizes were requested in vain; 0: none
  double ceiling_until_s = 0;
};

bool same(const BatchRule& a, const BatchRule& b) {
  return a.per_worker == b.per_worker && a.max_global == b.max_global && a.at_limit == b.at_limit;
}

double rest_s(const ClusterView& view, const JobView& job, double rate) {
  if (job.samples_total > 0 && rate > 0) return std::max(0.0, job.samples_total - job.samples_done) / rate;
  // Without a known end, a job is expected to run for as long as it has run so far.
  return std::max(view.now_s, kNoEndHorizon_s);
}

class SearchPolicy : public PerJobPolicy<SearchState> {
 public:
  explicit SearchPolicy(SearchSettings settings) : settings_(settings) {}

 protected:
  virtual Objective objective(const ClusterView& view, const JobView& job) const = 0;
  virtual std::string problem(const JobView&) const { return ""; }  // why it cannot decide; empty: it can
  // The numbers that explain why `from` is or is not left for `to`.
  virtual std::string comparison(const Measured& from, const Measured& to) const = 0;

  JobDecision decide_job(const ClusterView& view, const JobView& job, SearchState& state, Rng&) const final {
    JobDecision decision;
    observe(view, job, state);
    const SearchLimits limits = limits_of(view, job, state);
    if (auto why = problem(job); !why.empty()) {
      decision.reason = {"cannot_decide", std::move(why), {}};
    } else if (job.workers == 0 || job.workers < limits.min || job.workers > limits.max) {
      const std::uint32_t within = std::clamp(job.workers, limits.min, limits.max);
      move(view, job, state, within,
           {"limit", format_text("%u workers are outside of %u to %u", job.workers, limits.min, limits.max), {}},
           decision);
    } else if (job.changing) {
      decision.reason = {kChanging, format_text("on the way from %u to %u workers", job.workers, job.target), {}};
      if (no_longer_pays(view, job, limits, state)) take_back(job, state, decision);
    } else {
      search(view, job, limits, state, decision);
    }
    return decision;
  }

 private:
  void observe(const ClusterView& view, const JobView& job, SearchState& state) const {
    if (state.began && !same(state.batch, job.batch)) {
      state.table.forget();
      state.size_parts.clear();
      state.settled = false;
    }
    state.began = true;
    state.batch = job.batch;
    for (const auto& interval : job.intervals) {
      state.table.add(interval);
      if (state.settled && interval.workers == state.settled_size && !interval.warm_up && interval.steps > 0) {
        watch(interval, state);
      }
    }
    if (state.settled && job.workers == state.settled_size && !job.changing) watch_parts(job, state);
    add_parts(job, state);
    if (state.asked == job.workers && state.asked != 0 && steps_at(state, job.workers) >= kMinSteps) {
      const double took = view.now_s - state.asked_s;
      state.probe_s = state.probe_s > 0 ? (state.probe_s + took) / 2 : took;
      state.asked = 0;
    }
    if (state.asked > job.workers && !job.changing && view.now_s - state.asked_s > settings_.give_up_s) {
      state.ceiling = job.workers;
      state.ceiling_until_s = view.now_s + kHour;
      state.asked = 0;
    }
    if (state.ceiling != 0 && view.now_s >= state.ceiling_until_s) state.ceiling = 0;
  }

  // The members' figures are means over all steps since the last view, which may be of two sizes.
  static void add_parts(const JobView& job, SearchState& state) {
    if (!job.changing) state.waiting_parts.clear();
    const bool is_of_present = std::all_of(job.intervals.begin(), job.intervals.end(),
                                           [&](const Interval& interval) { return interval.workers == job.workers; });
    if (!is_of_present) return;
    (job.changing ? state.waiting_parts : state.size_parts[job.workers]).add(job);
  }

  void watch(const Interval& interval, SearchState& state) const {
    if (state.detector.changed()) {
      state.changed.begin_s -= interval.seconds();
      state.changed.steps += interval.steps;
      state.changed.samples += interval.samples;
      return;
    }
    state.detector.add(std::log(interval.samples_per_s()), static_cast<double>(interval.steps),
                       state.table.step_deviation());
    state.changed = {.workers = interval.workers, .global_batch = interval.global_batch};
    state.changed_parts.clear();
  }

  static void watch_parts(const JobView& job, SearchState& state) {
    if (state.detector.changed()) {
      if (state.changed.steps > 0) state.changed_parts.add(job);
    } else if (!state.detector.suspects()) {
      state.parts.add(job);
    }
  }

  static double first_probe_s(const JobView& job, const SearchState& state) {
    const double start_s = job.spares > 0 ? 0 : job.start_s > 0 ? job.start_s : kUnknownStart_s;
    const auto rate = state.table.log_rate(job.workers);
    return start_s + (rate ? kEnoughSteps * static_cast<double>(job.global_batch) * std::exp(-rate->value) : 0);
  }

  static double steps_at(const SearchState& state, std::uint32_t workers) {
    const auto* size = state.table.at(workers);
    return size ? size->recent_steps : 0;
  }

  SearchLimits limits_of(const ClusterView& view, const JobView& job, const SearchState& state) const {
    SearchLimits limits;
    limits.batch = job.batch;
    limits.min = std::max(job.min_workers, 1U);
    limits.max = std::min(job.max_workers, max_workers(job.batch));
    if (job.reachable != 0) limits.max = std::min(limits.max, job.reachable);
    if (state.ceiling != 0) limits.max = std::min(limits.max, state.ceiling);
    limits.max = std::max(limits.max, limits.min);
    for (const auto& host : view.hosts) limits.host_slots = std::max(limits.host_slots, host.slots);
    limits.probe_s = state.probe_s > 0 ? state.probe_s : first_probe_s(job, state);
    const auto rate = state.table.log_rate(job.workers);
    limits.horizon_s = rest_s(view, job, rate ? std::exp(rate->value) : 0);
    const double patience = patience_of(job, limits, state);
    limits.least = least_improvement(patience, state);
    limits.noise = state.table.step_deviation() / std::sqrt(kEnoughSteps / 2 * std::min(patience, kLongestProbe));
    return limits;
  }

  // The factor by which smaller improvements and longer measurements pay, because the job is long. After a change the
  // job may change again.
  static double patience_of(const JobView& job, const SearchLimits& limits, const SearchState& state) {
    if (job.samples_total <= 0 || state.follows_change) return 1;
    return std::clamp(limits.horizon_s / (kProbesOfUsualJob * limits.probe_s), 1.0, kMaxPatience);
  }

  // What an expected improvement has to reach rises with the changes, because those before did not bring theirs.
  double least_improvement(double patience, const SearchState& state) const {
    const double usual = settings_.tolerance / 4;
    if (state.follows_change) return usual * kAfterChange * std::exp2(std::max(0.0, state.moves - 2.0));
    return usual * std::min(1.0, std::exp2(std::max(0.0, state.moves - kPatientMoves)) / patience);
  }

  static std::vector<Measured> measured(const SearchState& state, const Objective& value, const SearchLimits& limits) {
    std::vector<NoisyRate> rates;
    for (const auto& [workers, size] : state.table.sizes()) {
      if (workers < limits.min || workers > limits.max || size.recent_steps < kMinSteps) continue;
      rates.push_back({workers, *state.table.log_rate(workers)});
    }
    const auto smooth = smoothed(rates, limits.host_slots > 1 ? limits.host_slots : 0);
    std::vector<Measured> all;
    for (std::size_t i = 0; i < rates.size(); ++i) {
      const std::uint32_t workers = rates[i].workers;
      Measured size{workers, smooth[i].value, value(workers, smooth[i].value), smooth[i].deviation};
      const auto parts = state.size_parts.find(workers);
      if (parts != state.size_parts.end() && parts->second.has_compute()) {
        size.parts = parts_of(limits.batch, workers, size.log_rate, parts->second.rest_share());
      }
      all.push_back(size);
    }
    return all;
  }

  // If the steps change while the workers of a larger size start, those may no longer pay. What has begun costs half.
  bool no_longer_pays(const ClusterView& view, const JobView& job, SearchLimits limits,
                      const SearchState& state) const {
    const bool is_probe = !state.settled && !state.follows_change && state.asked == job.target;
    const auto before = state.size_parts.find(job.workers);
    if (!is_probe || job.target <= job.workers || before == state.size_parts.end()) return false;
    if (state.waiting_parts.steps() < kEnoughSteps) return false;
    const double changed = unevenness(before->second, state.waiting_parts);
    if (!std::isfinite(changed) || changed < kUneven) return false;
    const Objective value = objective(view, job);
    auto sizes = measured(state, value, limits);
    const auto here =
        std::find_if(sizes.begin(), sizes.end(), [&](const Measured& size) { return size.workers == job.workers; });
    if (here == sizes.end()) return false;
    here->parts = parts_of(limits.batch, job.workers, here->log_rate, state.waiting_parts.rest_share());
    limits.least /= 2;
    limits.probe_s /= 2;
    const auto probe = next_probe(sizes, value, limits);
    return !probe || probe->workers <= job.workers;
  }

  static void take_back(const JobView& job, SearchState& state, JobDecision& decision) {
    state.size_parts[job.workers] = state.waiting_parts;
    state.asked = 0;
    decision.workers = job.workers;
    decision.reason = {
        "taken_back", format_text("steps of %u workers now say that %u would not pay", job.workers, job.target), {}};
  }

  void search(const ClusterView& view, const JobView& job, const SearchLimits& limits, SearchState& state,
              JobDecision& decision) const {
    const Objective value = objective(view, job);
    if (state.settled) wake(view, job, limits, value, state);
    const auto sizes = measured(state, value, limits);
    if (state.settled && overtaken(value, sizes, state)) state.settled = false;
    if (state.settled) {
      stay(view, job, sizes, state, decision);
      return;
    }
    const double steps = steps_at(state, job.workers);
    if (steps < kMinSteps || sizes.empty()) {
      decision.reason = {
          "measuring", format_text("%.0f of %.0f steps at %u workers", steps, kMinSteps, job.workers), {}};
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
    const bool hidden = undecided(job, sizes, best, state, decision);
    if (hidden && !precise(state, job.workers)) return;
    if (const auto probe = next_probe(sizes, value, limits)) {
      // A smaller size cannot be undone at once, because joiners take time to start. So before a job shrinks, its size
      // is measured for longer.
      if (probe->workers < job.workers && sizes.size() == 1 && !precise(state, job.workers)) {
        decision.reason = {
            "measuring", format_text("%.0f steps at %u workers before fewer are tried", steps, job.workers), {}};
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
      move(view, job, state, probe->workers, std::move(reason), decision);
      return;
    }
    if (hidden) return;
    settle(view, sizes, limits, state);
    stay(view, job, sizes, state, decision);
  }

  static const Measured& at(const std::vector<Measured>& sizes, std::uint32_t workers) {
    return *std::find_if(sizes.begin(), sizes.end(), [&](const Measured& size) { return size.workers == workers; });
  }

  bool precise(const SearchState& state, std::uint32_t workers) const {
    const auto rate = state.table.log_rate(workers);
    return rate &&
           (settings_.confidence * rate->deviation < 3 * settings_.tolerance || steps_at(state, workers) >= kMaxSteps);
  }

  // Whether noise hides which of this size and its strongest rival is better.
  bool undecided(const JobView& job, const std::vector<Measured>& sizes, const Measured& best, const SearchState& state,
                 JobDecision& decision) const {
    const Measured& here = at(sizes, job.workers);
    const Measured* rival = nullptr;
    for (const auto& size : sizes) {
      if (size.workers != here.workers && (!rival || size.value > rival->value)) rival = &size;
    }
    if (!rival || steps_at(state, job.workers) >= kMaxSteps) return false;
    if (here.workers != best.workers && rival->workers != best.workers) rival = &best;
    const double noise = settings_.confidence * std::hypot(here.deviation, rival->deviation);
    if (noise < settings_.tolerance || std::abs(here.value - rival->value) > noise) return false;
    decision.reason = {"measuring", format_text("%s, known to %.2f", comparison(*rival, here).c_str(), noise), {}};
    return true;
  }

  // Settles at the smallest of the sizes that are equally good.
  void settle(const ClusterView& view, const std::vector<Measured>& sizes, const SearchLimits& limits,
              SearchState& state) const {
    const Measured& best = sizes[smallest_good(sizes, settings_.tolerance / 2)];
    const bool again = state.settled_size == best.workers;
    state.quiet_s = !again ? 0 : state.quiet_s > 0 ? std::min(2 * state.quiet_s, kLongestQuiet_s) : settings_.quiet_s;
    state.quiet_until_s = view.now_s + state.quiet_s;
    state.settled = true;
    state.settled_size = best.workers;
    state.settled_max = limits.max;
    const auto rate = state.table.log_rate(best.workers);
    watch_from(rate ? rate->value : best.log_rate, steps_at(state, best.workers), state);
  }

  void watch_from(double log_rate, double steps, SearchState& state) const {
    state.detector = ChangeDetector(settings_.change, log_rate, steps);
    state.parts.clear();
    state.changed_parts.clear();
    state.changed = {};
  }

  // Stays settled until the job changes, or until more workers become available and the largest size was the best one.
  void wake(const ClusterView& view, const JobView& job, const SearchLimits& limits, const Objective& value,
            SearchState& state) const {
    if (state.settled_size > limits.max || state.settled_size < limits.min ||
        (limits.max > state.settled_max && state.settled_size == state.settled_max)) {
      state.settled = false;
    } else if (state.detector.changed() && static_cast<double>(state.changed.steps) >= kEnoughSteps) {
      follow_change(view, job, limits, value, state);
    }
  }

  // The rates of other sizes are those of before the change. They changed with the present one, or are worth nothing.
  void follow_change(const ClusterView& view, const JobView& job, const SearchLimits& limits, const Objective& value,
                     SearchState& state) const {
    const double log_rate = std::log(state.changed.samples_per_s());
    const bool alike = unevenness(state.parts, state.changed_parts) < kUneven;
    if (alike || view.now_s < state.quiet_until_s) {
      state.table.shift(log_rate - state.detector.reference());
    } else {
      state.settled = false;
      state.follows_change = true;
      state.moves = 0;
      state.guess = guess(job, limits, value, state);
      state.table.forget();
      state.size_parts.clear();
    }
    state.table.forget(state.settled_size);
    state.table.add(state.changed);
    state.size_parts[state.settled_size] = state.changed_parts;
    watch_from(log_rate, static_cast<double>(state.changed.steps), state);
  }

  // The best size if computation and the rest of a step have changed at every size as they did at the present one.
  std::uint32_t guess(const JobView& job, const SearchLimits& limits, const Objective& value,
                      const SearchState& state) const {
    if (!state.parts.is_known() || !state.changed_parts.is_known()) return 0;
    const auto share = [&](double workers) {
      return static_cast<double>(global_batch(job.batch, static_cast<std::size_t>(workers))) / workers;
    };
    const double compute_s = state.parts.compute_s() / share(state.settled_size);  // for a sample
    std::vector<std::pair<std::uint32_t, double>> rests;                           // by size, in seconds
    for (const auto& [workers, size] : state.table.sizes()) {
      if (workers < limits.min || workers > limits.max || size.recent_steps < kMinSteps) continue;
      const double step_s = share(workers) * workers * std::exp(-size.log_rate);
      rests.emplace_back(workers, std::max(0.0, step_s - compute_s * share(workers)));
    }
    if (limits.min == 1 && !rests.empty() && rests.front().first > 1) rests.insert(rests.begin(), {1, 0});
    const double slower = state.changed_parts.compute_s() / state.parts.compute_s();
    const double longer = state.changed_parts.rest_s() / state.parts.rest_s();
    std::uint32_t best = 0;
    double best_value = 0;
    for (std::size_t i = 0; i + 1 < rests.size(); ++i) {
      const auto [low, low_s] = rests[i];
      const auto [high, high_s] = rests[i + 1];
      const bool is_last = i + 2 == rests.size();  // a little is known of what is beyond
      const std::uint32_t last = is_last ? std::min(limits.max, 2 * high) : high;
      for (std::uint32_t workers = low; workers <= last; ++workers) {
        const double rest_s = std::max(0.0, low_s + (high_s - low_s) * (workers - low) / (high - low));
        const double step_s = slower * compute_s * share(workers) + longer * rest_s;
        const double its_value = value(workers, std::log(share(workers) * workers / step_s));
        if (best != 0 && its_value <= best_value) continue;
        best = workers;
        best_value = its_value;
      }
    }
    return best;
  }

  // As time passes, a utility may favour another of the measured sizes. The present size is compared as it was when the
  // others were measured.
  bool overtaken(const Objective& value, const std::vector<Measured>& sizes, const SearchState& state) const {
    if (state.detector.suspects() || state.detector.changed()) return false;
    const Measured& best = sizes[best_of(sizes)];
    const Measured& settled = at(sizes, state.settled_size);
    const double noise = std::hypot(best.deviation, settled.deviation);
    const double then = std::max(settled.value, value(settled.workers, state.detector.reference()));
    return best.value - then > 2 * settings_.tolerance + settings_.confidence * noise;
  }

  void stay(const ClusterView& view, const JobView& job, const std::vector<Measured>& sizes, SearchState& state,
            JobDecision& decision) const {
    const Measured& best = at(sizes, state.settled_size);
    Reason reason{"settled", about(sizes, best), {{"size", best.workers}, {"samples_per_s", std::exp(best.log_rate)}}};
    if (job.workers == best.workers) {
      decision.reason = std::move(reason);
    } else {
      reason.code = "found";
      move(view, job, state, best.workers, std::move(reason), decision);
    }
  }

  // The comparisons with the next smaller and the next larger size.
  std::string about(const std::vector<Measured>& sizes, const Measured& size) const {
    const auto place = static_cast<std::size_t>(&size - sizes.data());
    std::string text;
    if (place + 1 < sizes.size()) text = comparison(size, sizes[place + 1]);
    if (place > 0) text += (text.empty() ? "" : "; ") + comparison(sizes[place - 1], size);
    return text.empty() ? format_text("%.4g samples/s at %u workers", std::exp(size.log_rate), size.workers) : text;
  }

  static void move(const ClusterView& view, const JobView& job, SearchState& state, std::uint32_t workers,
                   Reason reason, JobDecision& decision) {
    if (state.asked != workers) {
      state.asked = workers;
      state.asked_s = view.now_s;
      ++state.moves;
    }
    if (workers != job.target || workers != job.workers) decision.workers = workers;
    decision.reason = std::move(reason);
  }

  SearchSettings settings_;
};

// Of both policies: their settings begin with these.
template <class Settings>
void add_search_parameters(SettingsTable<Settings>& table) {
  table.number("tolerance", &Settings::tolerance, {0.001, 0.5}, "", "relative gain below which no other size is tried")
      .number("confidence", &Settings::confidence, {0.5, 10}, "", "standard deviations by which two sizes must differ")
      .number("change", &Settings::change, {0.01, 1}, "",
              "relative change of throughput at the settled size that starts a new search")
      .number("quiet_s", &Settings::quiet_s, {0, 1e6}, "seconds",
              "minimum time to the next search after one that changed nothing; doubles with each")
      .number("give_up_s", &Settings::give_up_s, {1, 1e6}, "seconds",
              "time after which workers that did not come are not asked for, for an hour");
}

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
    return format_text("efficiency of %u→%u was %.2f %s %g", from.workers, to.workers, gained,
                       gained > target_ ? ">" : "<", target_);
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
    if (!utility_.linear && job.samples_total <= 0) return "a utility with steps needs a job with a known end";
    return "";
  }

  Objective objective(const ClusterView& view, const JobView& job) const override {
    // Without a known end, a linear utility still gives the value of a second and the cost of a worker for any number
    // of samples.
    const double rest = job.samples_total > 0 ? std::max(job.samples_total - job.samples_done, 1.0) : 1e6;
    return cost_objective(utility_.utility(job.samples_total > 0 ? expected_s(view, job) : 0),
                          Prices(view.hosts, job, price_per_hour_), view.now_s, rest);
  }

  // Expected duration of the whole job at its average speed so far.
  static double expected_s(const ClusterView& view, const JobView& job) {
    return job.samples_done > 0 ? view.now_s * job.samples_total / job.samples_done : 0;
  }

  std::string comparison(const Measured& from, const Measured& to) const override {
    return format_text("%u→%u workers: the remaining loss (utility and cost) changes by a factor of %.3f", from.workers,
                       to.workers, std::exp(from.value - to.value));
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
      .text("utility", &CostSettings::utility, {},
            "value of the finished job: linear:VALUE,SECONDS or step:VALUE:SECONDS,…")
      .number("price_per_worker_hour", &CostSettings::price_per_worker_hour, {0, 1e6}, "",
              "price of a worker for an hour where hosts have no price");
  add_search_parameters(table);
  return policy_spec<CostPolicy>("cost", "the size at which finishing earlier is worth the cost of its workers", table);
}

}  // namespace elastictrain::heuristics

#include "heuristics/goodput/goodput_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "heuristics/autoscale/format_text.h"
#include "heuristics/batch_plan.h"
#include "heuristics/goodput/goodput_model.h"
#include "heuristics/noise/noise_scale.h"
#include "heuristics/policy/per_job.h"

namespace elastictrain::heuristics {
namespace {

constexpr double kKnownNoise = 0.3;       // relative error below which the noise scale is used
constexpr std::size_t kMaxCells = 40;     // the most recently seen (hosts, workers, batch) that are kept
constexpr double kMemorySteps = 200;      // that the means of a cell are over
constexpr double kPerfect = 0.9;          // of the speed of a worker that two sizes keep: scaling that costs nothing
constexpr std::uint32_t kMostSizes = 64;  // that the goodput is said for
constexpr double kChanged = 0.2;          // of a step's time, as a logarithm: the job is another one than before

struct GoodputSettings {
  double utility_low = 0.35;
  double utility_high = 0.65;
  bool adapt_batch = true;
  bool adapt_size = true;
  std::uint32_t min_per_worker = 1;
  std::uint32_t max_per_worker = 256;
  double refit_s = 30;
  double settle_steps = 20;
  double hysteresis = 1.2;
  double min_s = 60;
};

struct Cell {
  GoodputSample sample;
  double steps = 0;
  double compute_steps = 0;
  double seen_s = 0;
};

using Place = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // hosts, workers, local batch

struct State {
  std::map<Place, Cell> cells;
  NoiseScale noise;
  std::optional<GoodputParameters> parameters;
  std::uint32_t max_seen = 0;
  std::uint32_t hosts = 1;  // that the present workers are on
  double fitted_s = 0;
  std::size_t fitted_cells = 0;
  double changed_s = 0;
  double off_steps = 0;          // consecutive ones at the present place whose time is not what it was
  std::uint32_t asked = 0;       // the size requested last
  std::uint32_t considered = 0;  // the size that the last reason is about
  bool wants_more = false;
  Reason last;
};

struct Found {
  std::uint32_t workers = 0;
  std::uint32_t local_batch = 0;
  double goodput = 0;
  double utility = 0;
};

class Goodput final : public PerJobPolicy<State> {
 public:
  explicit Goodput(const GoodputSettings& settings) : settings_(settings) {
    settings_.utility_high = std::max(settings_.utility_high, settings_.utility_low);
    settings_.max_per_worker = std::max(settings_.max_per_worker, settings_.min_per_worker);
  }

 private:
  JobDecision decide_job(const ClusterView& view, const JobView& job, State& state, Rng&) const override {
    observe(view, job, state);
    JobDecision decision;
    if (job.workers == 0 || job.changing) {
      decision.reason = {kChanging, format_text("on the way from %u to %u workers", job.workers, job.target), {}};
      if (job.workers != 0 && state.asked == job.target && job.target > job.workers) {
        consider_again(view, job, state, decision);
      }
    } else if (measured_steps(job, state) < settings_.settle_steps) {
      decision.reason = {"measuring",
                         format_text("%.0f steps of %u workers are known, %.0f are needed", measured_steps(job, state),
                                     job.workers, settings_.settle_steps),
                         {}};
    } else if (state.parameters && state.considered == job.workers && view.now_s - state.fitted_s < settings_.refit_s) {
      decision.reason = state.last;
      decision.wants_more = state.wants_more;
    } else {
      refit(state);
      state.fitted_s = view.now_s;
      if (state.parameters) consider(view, job, state, decision);
      if (state.parameters) decision.goodput = goodput_by_size(view, job, state);
      state.last = decision.reason;
      state.considered = job.workers;
      state.wants_more = decision.wants_more;
      if (decision.changes()) state.last.code = "settled";
      state.asked = decision.workers.value_or(job.workers);
    }
    return decision;
  }

  // While the workers of a larger size start, the others' steps may come to last longer or shorter, and what was fitted
  // before counts no more.
  void consider_again(const ClusterView& view, const JobView& job, State& state, JobDecision& decision) const {
    if (state.parameters || !settings_.adapt_size || measured_steps(job, state) < settings_.settle_steps) return;
    refit(state);
    state.fitted_s = view.now_s;
    if (!state.parameters) return;
    const GoodputJob model = this->model(job, state);
    const double alone = found(view, job, state, model, 1, 0).goodput;
    const Found now = found(view, job, state, model, job.workers, alone);
    const Found best = best_size(view, job, state, model, now, alone);
    if (best.workers >= job.target) return;
    state.asked = best.workers;
    decision.workers = best.workers;
    decision.reason = {
        kTakenBack,
        format_text("steps have changed: the utility of %u workers is %.2f of %.2f to %.2f, of %u %.2f", job.workers,
                    now.utility, settings_.utility_low, settings_.utility_high, best.workers, best.utility),
        {{"utility", now.utility}, {"size", best.workers}}};
    state.last = decision.reason;
    state.last.code = "settled";
  }

  static std::uint32_t hosts_of(const ClusterView& view, const JobView& job) {
    std::vector<bool> used(view.hosts.size());
    for (const auto& member : job.members)
      if (member.host < used.size()) used[member.host] = true;
    return std::max<std::uint32_t>(1, static_cast<std::uint32_t>(std::count(used.begin(), used.end(), true)));
  }

  // Of the present steps: the rule is that of the next change, if one is in progress.
  static std::uint32_t local_batch(const JobView& job) {
    const std::uint64_t global = job.changing ? job.global_batch : global_batch(job.batch, job.workers);
    return static_cast<std::uint32_t>(global / std::max(job.workers, 1U));
  }

  void observe(const ClusterView& view, const JobView& job, State& state) const {
    state.noise.add(job.norms);
    state.hosts = hosts_of(view, job);
    double compute = 0;
    double weight = 0;
    for (const auto& member : job.members) {
      compute += member.compute_s * static_cast<double>(member.steps);
      weight += static_cast<double>(member.steps);
    }
    for (const auto& interval : job.intervals) {
      if (interval.warm_up || interval.steps == 0 || interval.workers == 0 || !(interval.seconds() > 0)) continue;
      // The placement is known only for the present workers.
      if (interval.workers != job.workers) continue;
      const auto batch = static_cast<std::uint32_t>(interval.global_batch / interval.workers);
      const auto steps = static_cast<double>(interval.steps);
      if (has_changed(state, {state.hosts, interval.workers, batch}, steps, interval.seconds() / steps)) {
        state.cells.clear();
        state.parameters.reset();
      }
      Cell& cell = state.cells[{state.hosts, interval.workers, batch}];
      cell.sample.place = {state.hosts, interval.workers};
      cell.sample.local_batch = batch;
      cell.steps = std::min(cell.steps + steps, std::max(kMemorySteps, steps));
      cell.seen_s = view.now_s;
      cell.sample.step_s += steps / cell.steps * (interval.seconds() / steps - cell.sample.step_s);
      state.max_seen = std::max(state.max_seen, interval.workers);
      if (!(compute > 0) || batch != local_batch(job)) continue;
      cell.compute_steps = std::min(cell.compute_steps + steps, std::max(kMemorySteps, steps));
      cell.sample.compute_s += steps / cell.compute_steps * (compute / weight - cell.sample.compute_s);
    }
    while (state.cells.size() > kMaxCells) {
      state.cells.erase(std::min_element(state.cells.begin(), state.cells.end(), [](const auto& a, const auto& b) {
        return a.second.seen_s < b.second.seen_s;
      }));
    }
  }

  // Whether steps have lasted another time than before for long enough: then the times of other sizes are old as well.
  bool has_changed(State& state, const Place& place, double steps, double step_s) const {
    const auto cell = state.cells.find(place);
    const bool known = cell != state.cells.end() && cell->second.steps >= settings_.settle_steps;
    const bool off = known && std::abs(std::log(step_s / cell->second.sample.step_s)) > kChanged;
    state.off_steps = off ? state.off_steps + steps : 0;
    if (state.off_steps < settings_.settle_steps) return false;
    state.off_steps = 0;
    return true;
  }

  static double measured_steps(const JobView& job, const State& state) {
    const auto cell = state.cells.find({state.hosts, job.workers, local_batch(job)});
    return cell == state.cells.end() ? 0 : cell->second.steps;
  }

  // Starts at the last fit, except for a new placement or batch: then another minimum may be better.
  static void refit(State& state) {
    std::vector<GoodputSample> samples;
    for (const auto& [key, cell] : state.cells) samples.push_back(cell.sample);
    state.parameters = fit_goodput(samples, samples.size() == state.fitted_cells ? state.parameters : std::nullopt);
    state.fitted_cells = samples.size();
  }

  GoodputJob model(const JobView& job, const State& state) const {
    GoodputJob model;
    model.parameters = *state.parameters;
    if (state.noise.relative_error().value_or(1) <= kKnownNoise) model.noise_scale = state.noise.value();
    model.base_batch = static_cast<double>(job.base_batch != 0 ? job.base_batch : job.global_batch);
    model.min_local = settings_.min_per_worker;
    model.max_local = settings_.max_per_worker;
    model.max_global = job.batch.max_global;
    return model;
  }

  static GoodputPlace place(const ClusterView& view, const JobView& job, const State& state, std::uint32_t workers) {
    if (workers == job.workers) return {state.hosts, workers};
    std::uint32_t slots = 1;
    for (const auto& host : view.hosts) slots = std::max(slots, host.slots);
    return {(workers + slots - 1) / slots, workers};
  }

  // The best batch for that many workers. `alone` is the goodput of one worker; 0 for the first call.
  Found found(const ClusterView& view, const JobView& job, const State& state, const GoodputJob& model,
              std::uint32_t workers, double alone) const {
    Found result{.workers = workers};
    if (settings_.adapt_batch && model.noise_scale) {
      const auto best = best_batch(model, place(view, job, state, workers));
      result.local_batch = best.local_batch;
      result.goodput = best.goodput;
    } else {
      const auto batch = static_cast<double>(global_batch(job.batch, workers)) / workers;
      result.local_batch = job.batch.per_worker;
      result.goodput = goodput(model, place(view, job, state, workers), batch);
    }
    result.utility = alone > 0 ? result.goodput / alone / workers : 1;
    return result;
  }

  // At a fifth more workers each.
  std::vector<GoodputAt> goodput_by_size(const ClusterView& view, const JobView& job, const State& state) const {
    const GoodputJob model = this->model(job, state);
    const std::uint32_t most = std::clamp(std::min(job.max_workers, max_workers(job.batch)), 1U, kMostSizes);
    std::vector<GoodputAt> sizes;
    for (std::uint32_t workers = 1; workers != 0;) {
      const double rate = found(view, job, state, model, workers, 0).goodput;
      if (std::isfinite(rate) && rate > 0) sizes.push_back({workers, rate});
      workers = workers == most ? 0 : std::min(most, workers + std::max(1U, workers / 5));
    }
    return sizes;
  }

  void consider(const ClusterView& view, const JobView& job, State& state, JobDecision& decision) const {
    const GoodputJob model = this->model(job, state);
    const double alone = found(view, job, state, model, 1, 0).goodput;
    const Found now = found(view, job, state, model, job.workers, alone);
    const Found best = settings_.adapt_size ? best_size(view, job, state, model, now, alone) : now;
    decision.reason = {"settled",
                       format_text("%u workers: utility %.2f of %.2f to %.2f, goodput %.4g/s", job.workers, now.utility,
                                   settings_.utility_low, settings_.utility_high, now.goodput),
                       {{"utility", now.utility}, {"goodput", now.goodput}}};
    decision.wants_more = settings_.adapt_size && best.workers == job.workers && now.utility > settings_.utility_high;
    if (state.changed_s > 0 && view.now_s - state.changed_s < settings_.min_s) return;
    if (const std::uint32_t look = best.workers <= state.max_seen ? size_to_look_at(job, state) : 0; look != 0) {
      decision.workers = look;
      decision.reason = {
          "probe",
          format_text("no time of a gradient shows how fast one worker is beside each of %u: the next size is %u",
                      smallest_seen(state), look),
          {{"size", look}}};
    } else if (best.workers != job.workers) {
      decision.workers = best.workers;
      decision.reason.code = best.workers > job.workers ? "utility_high" : "utility_low";
      decision.reason.text += format_text("; with %u workers %.2f, %.4g/s", best.workers, best.utility, best.goodput);
      decision.reason.numbers.emplace_back("size", best.workers);
    }
    if (settings_.adapt_batch && model.noise_scale) batch(job, model, best, decision);
    if (decision.changes()) state.changed_s = view.now_s;
  }

  void batch(const JobView& job, const GoodputJob& model, const Found& best, JobDecision& decision) const {
    const double ratio = static_cast<double>(best.local_batch) / job.batch.per_worker;
    if (!decision.workers && ratio < settings_.hysteresis && ratio * settings_.hysteresis > 1) return;
    if (best.local_batch == job.batch.per_worker) return;
    decision.per_worker_batch = best.local_batch;
    const double global = static_cast<double>(best.local_batch) * best.workers;
    decision.learning_rate_factor = adascale_gain(*model.noise_scale, global, model.base_batch);
    if (!decision.workers) decision.reason.code = "batch";
    decision.reason.text += format_text("; %u samples per worker instead of %u at a noise scale of %.4g",
                                        best.local_batch, job.batch.per_worker, *model.noise_scale);
    decision.reason.numbers.emplace_back("per_worker_batch", best.local_batch);
    decision.reason.numbers.emplace_back("noise_scale", *model.noise_scale);
  }

  static std::uint32_t smallest_seen(const State& state) {
    std::uint32_t smallest = UINT32_MAX;
    for (const auto& [place, cell] : state.cells) smallest = std::min(smallest, cell.sample.place.workers);
    return smallest;
  }

  // If nothing tells computation from exchange: half of the first size, then the least, unless two sizes scale
  // perfectly. 0: none.
  std::uint32_t size_to_look_at(const JobView& job, const State& state) const {
    const std::uint32_t smallest = smallest_seen(state), least = std::max(job.min_workers, 1U);
    if (!settings_.adapt_size || smallest <= least) return 0;
    double rate = 0;  // of a worker, in samples per second
    double rate_of_more = 0;
    std::uint32_t more = UINT32_MAX;
    for (const auto& [place, cell] : state.cells) {
      if (cell.compute_steps > 0) return 0;
      const GoodputSample& sample = cell.sample;
      const double of_a_worker = sample.local_batch / sample.step_s;
      if (sample.place.workers == smallest) {
        rate = std::max(rate, of_a_worker);
      } else if (sample.place.workers <= more) {
        rate_of_more = sample.place.workers < more ? of_a_worker : std::max(rate_of_more, of_a_worker);
        more = sample.place.workers;
      }
    }
    return rate_of_more >= kPerfect * rate ? 0 : more == UINT32_MAX ? std::max(least, smallest / 2) : least;
  }

  // The utility falls with the size, so bisection finds the middle of the band.
  Found best_size(const ClusterView& view, const JobView& job, const State& state, const GoodputJob& model,
                  const Found& now, double alone) const {
    std::uint32_t low = std::max(job.min_workers, 1U);
    std::uint32_t high = std::min({job.max_workers, max_workers(job.batch), 2 * std::max(state.max_seen, 1U)});
    if (job.reachable != 0) high = std::min(high, job.reachable);
    high = std::max(high, low);
    const bool inside = now.workers >= low && now.workers <= high;
    if (inside && now.utility >= settings_.utility_low && now.utility <= settings_.utility_high) return now;
    const double middle = (settings_.utility_low + settings_.utility_high) / 2;
    while (high - low > 1) {
      const std::uint32_t between = low + (high - low) / 2;
      (found(view, job, state, model, between, alone).utility > middle ? low : high) = between;
    }
    const Found below = found(view, job, state, model, low, alone);
    const Found above = found(view, job, state, model, high, alone);
    return std::abs(below.utility - middle) < std::abs(above.utility - middle) ? below : above;
  }

  GoodputSettings settings_;
};

SettingsTable<GoodputSettings> goodput_table() {
  const Range batches{1, static_cast<double>(std::numeric_limits<std::uint32_t>::max())};
  SettingsTable<GoodputSettings> table;
  table
      .number("utility_low", &GoodputSettings::utility_low, {0.01, 1}, "",
              "goodput per worker, relative to one worker alone, below which the job shrinks")
      .number("utility_high", &GoodputSettings::utility_high, {0.01, 1}, "",
              "goodput per worker, relative to one worker alone, above which the job grows")
      .flag("adapt_size", &GoodputSettings::adapt_size, "change the number of workers")
      .flag("adapt_batch", &GoodputSettings::adapt_batch, "change the batch, and the learning rate with it")
      .whole("min_per_worker", &GoodputSettings::min_per_worker, batches, "samples", "minimum batch of a worker")
      .whole("max_per_worker", &GoodputSettings::max_per_worker, batches, "samples",
             "maximum batch of a worker: what fits in its memory")
      .number("refit_s", &GoodputSettings::refit_s, {1, 1e9}, "seconds", "time between two fits of the model")
      .number("settle_steps", &GoodputSettings::settle_steps, {1, 1e9}, "steps",
              "steps at a size and batch before a decision")
      .number("hysteresis", &GoodputSettings::hysteresis, {1, 10}, "",
              "the batch stays within this factor of the best one")
      .number("min_s", &GoodputSettings::min_s, {0, 1e9}, "seconds", "minimum time between two changes");
  return table;
}

}  // namespace

PolicySpec goodput_policy() {
  return policy_spec<Goodput>(
      "goodput",
      "sets size and batch by the rate at which the job learns: samples per second times the value of a sample",
      goodput_table());
}

}  // namespace elastictrain::heuristics

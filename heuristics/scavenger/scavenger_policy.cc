#include "heuristics/scavenger/scavenger_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "heuristics/autoscale/format_text.h"
#include "heuristics/cost/cost.h"
#include "heuristics/policy/per_job.h"
#include "heuristics/scavenger/job_plan.h"

namespace elastictrain::heuristics {

const char* const kMeasured = "measured";

namespace {

constexpr double kNoEndSamples = 1e6;
constexpr std::uint32_t kMaxBatches = 9;  // for each size
constexpr double kRecentSteps = 200;      // that the present step time is averaged over

constexpr double kChanged = 0.2;  // of a step's time, as a logarithm: what was chosen before may be wrong

constexpr double kUnbounded = 1e9;
constexpr double kMaxBatch = std::numeric_limits<std::uint32_t>::max();

constexpr std::uint32_t kFewSizes = 5;  // of which partial and universal searches take theirs, and batches

struct ScavengerSettings {
  std::string goal = "knee";
  double deadline_s = kUnbounded;
  double budget = kUnbounded;
  std::string search = "partial";
  std::string model = "components";
  std::string epochs = "noise-scale";
  double theta = 0;
  std::string price = "flat";
  double price_per_worker_hour = 1;
  bool vary_batch = false;
  std::uint32_t min_per_worker = 8;
  std::uint32_t max_per_worker = 256;
  std::uint32_t sizes = 0;
  double steps_per_point = 20;
  double give_up_s = 600;
  double tolerance = 0.05;
  double reconsider_s = 600;
  bool follow = true;
};

struct Limits {
  std::uint32_t min = 1;
  std::uint32_t max = 1;
  friend bool operator==(const Limits&, const Limits&) = default;
};

struct State {
  bool began = false;
  SearchPoint origin;           // where the job started
  std::uint32_t own_batch = 0;  // of a worker there, before the limit of the global batch
  Limits limits;
  StepMeasurements measured;         // of all steps until the search is over, then of the recent ones
  std::vector<SearchPoint> skipped;  // that could not be reached
  std::optional<StepTimeModel> model;
  SearchPoint target;  // 0 workers: nothing
  double target_since_s = 0;
  double considered_s = 0;
  double considered_step_s = 0;  // of the present point, at that time
  bool knew_noise = false;       // at that time, or before
  Reason settled;
};

class Scavenger final : public PerJobPolicy<State> {
 public:
  explicit Scavenger(const ScavengerSettings& settings)
      : settings_(settings),
        search_(search_of(settings.search)),
        form_(step_time_form_of(settings.model)),
        statistics_{epochs_form_of(settings.epochs), settings.theta},
        price_(settings.price == "memory" ? PriceForm::kMemory : PriceForm::kFlat) {
    goal_.goal = *goal_of(settings.goal);
    goal_.limit = goal_.goal == Goal::kBudget ? settings.budget : settings.deadline_s;
  }

 private:
  JobDecision decide_job(const ClusterView& view, const JobView& job, State& state, Rng&) const override {
    observe(job, state);
    JobDecision decision;
    const Limits limits = limits_of(job);
    if (!(limits == state.limits)) state.model.reset();
    state.limits = limits;
    if (job.workers == 0 || job.changing) {
      decision.reason = {kChanging, format_text("on the way from %u to %u workers", job.workers, job.target), {}};
      if (give_up(view, job, state)) {
        decision.workers = job.workers;
        decision.reason = {
            "given_up", format_text("%u workers were not reached; the size stays %u", job.target, job.workers), {}};
      } else {
        reconsider(view, job, state, decision);
      }
      return decision;
    }
    if (!state.model && search(view, job, state, decision)) return decision;
    if (!settings_.follow) {
      decision.reason = {
          kMeasured, format_text("%zu sizes and batches are measured", state.measured.points().size()), {}};
    } else if (!state.model) {
      decision.reason = {"measuring", "nothing has been measured yet", {}};
    } else if (!has_goal(job)) {
      decision.reason = {"cannot_decide", "a deadline or a budget needs a job whose number of samples is known", {}};
    } else {
      settle(view, job, state, decision);
    }
    return decision;
  }

  bool has_goal(const JobView& job) const {
    const bool is_bounded = goal_.goal == Goal::kDeadline || goal_.goal == Goal::kBudget;
    return !is_bounded || job.samples_total > 0;
  }

  // While the workers of its choice start: whether that is still the choice, if steps have become longer or shorter.
  void reconsider(const ClusterView& view, const JobView& job, State& state, JobDecision& decision) const {
    const bool is_own = state.target.workers == job.target && job.target > job.workers;
    const SearchPoint now = present(job);
    const bool batch_stays = std::uint64_t{now.workers} * now.local_batch == job.global_batch;
    if (!state.model || !settings_.follow || !has_goal(job) || !is_own || !batch_stays) return;
    const double step_s = state.measured.step_s(now);
    if (!(step_s > 0) || std::abs(std::log(step_s / state.considered_step_s)) < kChanged) return;
    const auto [points, choice] = choose_now(view, job, state, now);
    const PlanPoint& best = points[*choice.point];
    if (best.workers == job.target) return;
    go(view, job, {best.workers, best.local_batch}, state, decision);
    decision.workers = best.workers;
    decision.reason = choice.reason;
    if (best.workers < job.target) decision.reason.code = kTakenBack;
    state.settled = choice.reason;
    state.settled.code = "settled";
  }

  static SearchPoint present(const JobView& job) {
    return kept_to_limit(job.batch, SearchPoint{job.workers, job.batch.per_worker});
  }

  void observe(const JobView& job, State& state) const {
    state.measured.add(job, state.model ? kRecentSteps : 0);
    if (state.began || job.workers == 0) return;
    state.began = true;
    state.origin = present(job);
    state.own_batch = job.batch.per_worker;
  }

  static Limits limits_of(const JobView& job) {
    std::uint32_t max = std::min(job.max_workers, max_workers(job.batch));
    if (job.reachable != 0) max = std::min(max, job.reachable);
    const std::uint32_t min = std::max(job.min_workers, 1U);
    return {min, std::max(max, min)};
  }

  std::vector<std::uint32_t> batches(const JobView& job, std::uint32_t count) const {
    if (!settings_.vary_batch) return {job.batch.per_worker};
    return geometric_sizes(settings_.min_per_worker, std::max(settings_.max_per_worker, settings_.min_per_worker),
                           count);
  }

  std::uint32_t few() const { return settings_.sizes == 0 ? kFewSizes : settings_.sizes; }

  std::vector<std::uint32_t> sizes(const Limits& limits) const {
    if (search_ == SearchMode::kFull && settings_.sizes == 0) return compared_space(limits.min, limits.max, {}).workers;
    return geometric_sizes(limits.min, limits.max, few());
  }

  std::vector<SearchPoint> search_plan(const JobView& job, const State& state) const {
    const SearchSpace space{sizes(state.limits), batches(job, few())};
    return kept_to_limit(job.batch, search_points(space, search_, state.origin));
  }

  // Whether the requested point is skipped from now on.
  bool give_up(const ClusterView& view, const JobView& job, State& state) const {
    const bool late = state.target.workers != 0 && view.now_s - state.target_since_s > settings_.give_up_s;
    if (!late || job.workers == state.target.workers) return false;
    state.skipped.push_back(state.target);
    state.target = {};
    return true;
  }

  // True while the search goes on. At its end the models are fitted.
  bool search(const ClusterView& view, const JobView& job, State& state, JobDecision& decision) const {
    give_up(view, job, state);
    const auto plan = search_plan(job, state);
    std::vector<SearchPoint> done = state.skipped;
    for (const auto& point : plan)
      if (state.measured.steps_at(point) >= settings_.steps_per_point) done.push_back(point);
    const auto next = next_point(plan, done);
    if (!next) {
      fit(view, job, state);
      state.considered_s = 0;
      return false;
    }
    const SearchPoint now = present(job);
    const auto number = static_cast<unsigned>(std::find(plan.begin(), plan.end(), *next) - plan.begin() + 1);
    decision.reason = {"searching",
                       format_text("measuring %u workers of %u, point %u of %u of the search: %.0f of %.0f steps",
                                   next->workers, next->local_batch, number, static_cast<unsigned>(plan.size()),
                                   state.measured.steps_at(*next), settings_.steps_per_point),
                       {{"size", next->workers}, {"local_batch", next->local_batch}, {"points", plan.size()}}};
    if (!(now == *next)) go(view, job, *next, state, decision);
    return true;
  }

  void go(const ClusterView& view, const JobView& job, const SearchPoint& point, State& state,
          JobDecision& decision) const {
    if (!(state.target == point)) state.target_since_s = view.now_s;
    state.target = point;
    if (point.workers != job.workers) decision.workers = point.workers;
    if (settings_.vary_batch && point.local_batch != job.batch.per_worker)
      decision.per_worker_batch = point.local_batch;
  }

  void fit(const ClusterView& view, const JobView& job, State& state) const {
    const SearchSpace space{sizes(state.limits), batches(job, few())};
    state.model = fit_step_times(form_, state.measured.points(), search_ == SearchMode::kUniversal, space,
                                 workers_per_host(view.hosts));
  }

  PriceRule prices(const ClusterView& view, const JobView& job) const {
    PriceRule rule;
    rule.form = price_;
    rule.base_local_batch = static_cast<double>(job.base_batch) / std::max(job.workers, 1U);
    rule.per_s = [all = Prices(view.hosts, job, settings_.price_per_worker_hour)](std::uint32_t workers) {
      return all.per_s(workers);
    };
    return rule;
  }

  std::optional<EpochsModel> epochs(const JobView& job, const State& state) const {
    return state.measured.epochs(statistics_, job.base_batch != 0 ? job.base_batch : job.global_batch);
  }

  PlanWork work(const JobView& job, const State& state) const {
    const double left = job.samples_total > 0 ? job.samples_total - job.samples_done : kNoEndSamples;
    return work_of(left, job.batch, epochs(job, state));
  }

  // The user's, if the policy changes it.
  std::uint32_t own_batch(const JobView& job, const State& state) const {
    return settings_.vary_batch ? state.own_batch : job.batch.per_worker;
  }

  // The compared sizes and batches; first the present point. Without the noise a larger batch would look free, so only
  // the user's own is used.
  std::vector<SearchPoint> candidates(const JobView& job, const State& state, const SearchPoint& now) const {
    const bool any_batch = epochs(job, state).has_value();
    const SearchSpace space = compared_space(
        state.limits.min, state.limits.max, any_batch ? batches(job, kMaxBatches) : std::vector{own_batch(job, state)});
    auto points = kept_to_limit(job.batch, allowed_points(space));
    std::erase_if(points, [&](const SearchPoint& point) {
      return point == now || std::find(state.skipped.begin(), state.skipped.end(), point) != state.skipped.end();
    });
    points.insert(points.begin(), now);
    return points;
  }

  PlanGoal goal_now(const ClusterView& view, const JobView& job) const {
    PlanGoal goal = goal_;
    if (goal.goal == Goal::kDeadline) goal.limit = std::max(0.0, goal.limit - view.now_s);
    if (goal.goal == Goal::kBudget) goal.limit = std::max(0.0, goal.limit - job.cost);
    return goal;
  }

  void settle(const ClusterView& view, const JobView& job, State& state, JobDecision& decision) const {
    const bool is_news = !state.knew_noise && epochs(job, state).has_value();
    state.knew_noise = state.knew_noise || is_news;
    if (state.considered_s > 0 && !is_news && view.now_s - state.considered_s < settings_.reconsider_s) {
      decision.reason = state.settled;
      return;
    }
    const SearchPoint now = present(job);
    auto [points, first] = choose_now(view, job, state, now);
    const PlanGoal goal = goal_now(view, job);
    // The search ended at a batch of which nobody knows whether it is worth its samples.
    const SearchPoint own = kept_to_limit(job.batch, SearchPoint{job.workers, own_batch(job, state)});
    const bool leaves = !state.knew_noise && now.local_batch != own.local_batch && points.size() > 1;
    if (leaves) points.erase(points.begin());
    const PlanChoice choice = leaves ? choose(points, goal) : std::move(first);
    const PlanPoint& best = points[*choice.point];
    decision.reason = choice.reason;
    if (leaves || (*choice.point != 0 && gain_of_leaving(points.front(), best, goal) > settings_.tolerance)) {
      go(view, job, {best.workers, best.local_batch}, state, decision);
    } else if (*choice.point != 0) {
      decision.reason.code = "settled";
      decision.reason.text +=
          format_text("; %u of %u stay, within %.0f %%", now.workers, now.local_batch, 100 * settings_.tolerance);
    }
    state.settled = decision.reason;
    state.settled.code = "settled";
  }

  struct Choice {
    std::vector<PlanPoint> points;  // first the present one
    PlanChoice best;
  };

  Choice choose_now(const ClusterView& view, const JobView& job, State& state, const SearchPoint& now) const {
    state.considered_s = view.now_s;
    state.considered_step_s = state.measured.step_s(now);
    auto points = plan_points(candidates(job, state, now), *state.model, work(job, state), prices(view, job),
                              state.measured.points());
    scale_to_present(points, state);
    PlanChoice best = choose(points, goal_now(view, job));
    return {std::move(points), std::move(best)};
  }

  // If the job has become slower or faster than while it was measured, all sizes are scaled by the same factor.
  static void scale_to_present(std::vector<PlanPoint>& points, const State& state) {
    const PlanPoint& now = points.front();
    if (!now.measured) return;
    const double factor = now.step_s / state.model->seconds(now.workers, now.local_batch);
    for (auto& point : points) {
      if (point.measured) continue;
      point.step_s *= factor;
      point.seconds *= factor;
      point.cost *= factor;
    }
  }

  ScavengerSettings settings_;
  SearchMode search_;
  StepTimeForm form_;
  StatisticsRule statistics_;
  PriceForm price_;
  PlanGoal goal_;
};

SettingsTable<ScavengerSettings> scavenger_table() {
  const Range batches{1, kMaxBatch};
  SettingsTable<ScavengerSettings> table;
  table
      .text("goal", &ScavengerSettings::goal, goal_names(),
            "fastest; cheapest; knee: the point beyond which more time saves little; deadline: the cheapest that meets "
            "deadline_s; budget: the fastest within budget")
      .number("deadline_s", &ScavengerSettings::deadline_s, {0, kUnbounded}, "seconds",
              "time from the start of the job to its required end")
      .number("budget", &ScavengerSettings::budget, {0, 1e15}, "",
              "maximum cost of the whole job, in the unit of the prices")
      .text("search", &ScavengerSettings::search, search_names(),
            "what is measured: full: all sizes; partial: ends and middles; universal: only the present size")
      .text("model", &ScavengerSettings::model, step_time_form_names(),
            "form of the step time; paper and paper-global are planes over the batch of a worker or the global batch")
      .text("epochs", &ScavengerSettings::epochs, epochs_form_names(),
            "how epochs follow from the batch: by the gradient noise scale, or as in the paper by the SGD noise gamma, "
            "e = e* + theta gamma")
      .number(
          "theta", &ScavengerSettings::theta, {-1e6, 1e6}, "",
          "theta / e* of earlier runs, with epochs = sgd-noise; below 0: larger batches need more epochs; it must be "
          "above -1 / gamma of the first batch")
      .text("price", &ScavengerSettings::price, {"flat", "memory"},
            "memory: the price of a worker grows with its batch")
      .number("price_per_worker_hour", &ScavengerSettings::price_per_worker_hour, {0, 1e9}, "",
              "price of a worker for an hour where hosts have no price")
      .flag("vary_batch", &ScavengerSettings::vary_batch, "search the batch of a worker as well")
      .whole("min_per_worker", &ScavengerSettings::min_per_worker, batches, "samples",
             "minimum batch of a worker, with vary_batch")
      .whole("max_per_worker", &ScavengerSettings::max_per_worker, batches, "samples",
             "maximum batch of a worker, with vary_batch")
      .whole(
          "sizes", &ScavengerSettings::sizes, {0, 64}, "",
          "numbers of workers (and batches) that a full search measures; 0: all numbers of workers, or 64 of them, and "
          "5 batches")
      .number("steps_per_point", &ScavengerSettings::steps_per_point, {1, 1e6}, "steps",
              "steps for which each point of the search is measured")
      .number("give_up_s", &ScavengerSettings::give_up_s, {1, kUnbounded}, "seconds",
              "time after which a size that is not reached is left out")
      .number("tolerance", &ScavengerSettings::tolerance, {0, 1}, "",
              "relative gain below which a settled job keeps its size")
      .number("reconsider_s", &ScavengerSettings::reconsider_s, {1, kUnbounded}, "seconds",
              "time between two evaluations of a settled job")
      .flag("follow", &ScavengerSettings::follow, "change the job to the best point; false: measure only");
  return table;
}

}  // namespace

PolicySpec scavenger_policy() {
  return policy_spec<Scavenger>("scavenger",
                                "measures a few sizes, then takes the fastest, the cheapest, the knee, or the one that "
                                "meets a deadline or a budget",
                                scavenger_table());
}

}  // namespace elastictrain::heuristics

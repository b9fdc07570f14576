#include "heuristics/scavenger/scavenger_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "heuristics/autoscale/words.h"
#include "heuristics/cost/price.h"
#include "heuristics/policy/per_job.h"
#include "heuristics/scavenger/job_plan.h"

namespace elastictrain::heuristics {

const char* const kMeasured = "measured";

namespace {

constexpr double kNoEndSamples = 1e6;
constexpr std::uint32_t kMostBatches = 9;  // for each size
constexpr double kRecentSteps = 200;       // that the present step time is averaged over

struct Settings {
  PlanGoal goal;
  SearchMode search = SearchMode::kPartial;
  StepTimeForm form = StepTimeForm::kComponents;
  PriceForm price = PriceForm::kFlat;
  double price_per_worker_hour = 0;
  bool vary_batch = false;
  std::uint32_t min_per_worker = 1;
  std::uint32_t max_per_worker = 1024;
  std::uint32_t sizes = 5;
  double steps_per_point = 20;
  double give_up_s = 600;
  double tolerance = 0.05;
  double reconsider_s = 600;
  bool follow = true;
};

struct Limits {
  std::uint32_t least = 1;
  std::uint32_t most = 1;
  friend bool operator==(const Limits&, const Limits&) = default;
};

struct State {
  bool began = false;
  SearchPoint origin;  // where the job started
  Limits limits;
  StepMeasurements measured;         // of all steps until the search is over, then of the recent ones
  std::vector<SearchPoint> skipped;  // that could not be reached
  std::optional<StepTimeModel> model;
  SearchPoint wanted;  // 0 workers: nothing
  double wanted_since_s = 0;
  double considered_s = 0;
  Reason settled;
};

class Scavenger final : public PerJobPolicy<State> {
 public:
  explicit Scavenger(const Settings& settings) : settings_(settings) {}

 private:
  JobDecision decide_job(const ClusterView& view, const JobView& job, State& state, Rng&) const override {
    observe(job, state);
    JobDecision decision;
    const Limits limits = limits_of(job);
    if (!(limits == state.limits)) state.model.reset();
    state.limits = limits;
    if (job.workers == 0 || job.changing) {
      decision.reason = {"changing", words("on the way from %u to %u workers", job.workers, job.target), {}};
      if (give_up(view, job, state)) {
        decision.workers = job.workers;
        decision.reason = {
            "given_up", words("%u workers were not reached; the size stays %u", job.target, job.workers), {}};
      }
      return decision;
    }
    if (!state.model && search(view, job, state, decision)) return decision;
    if (!settings_.follow) {
      decision.reason = {kMeasured, words("%zu sizes and batches are measured", state.measured.points().size()), {}};
    } else if (!state.model) {
      decision.reason = {"measuring", "nothing has been measured yet", {}};
    } else if (const bool bounded = settings_.goal.goal == Goal::kDeadline || settings_.goal.goal == Goal::kBudget;
               bounded && job.samples_total <= 0) {
      decision.reason = {"cannot_decide", "a deadline or a budget needs a job whose number of samples is known", {}};
    } else {
      settle(view, job, state, decision);
    }
    return decision;
  }

  static SearchPoint present(const JobView& job) {
    return kept_to_limit(job.batch, SearchPoint{job.workers, job.batch.per_worker});
  }

  void observe(const JobView& job, State& state) const {
    state.measured.add(job, state.model ? kRecentSteps : 0);
    if (state.began || job.workers == 0) return;
    state.began = true;
    state.origin = present(job);
  }

  static Limits limits_of(const JobView& job) {
    std::uint32_t most = std::min(job.max_workers, most_workers(job.batch));
    if (job.reachable != 0) most = std::min(most, job.reachable);
    const std::uint32_t least = std::max(job.min_workers, 1U);
    return {least, std::max(most, least)};
  }

  std::vector<std::uint32_t> batches(const JobView& job, std::uint32_t count) const {
    if (!settings_.vary_batch) return {job.batch.per_worker};
    return geometric_sizes(settings_.min_per_worker, std::max(settings_.max_per_worker, settings_.min_per_worker),
                           count);
  }

  std::vector<SearchPoint> search_plan(const JobView& job, const State& state) const {
    const SearchSpace space{geometric_sizes(state.limits.least, state.limits.most, settings_.sizes),
                            batches(job, settings_.sizes)};
    return kept_to_limit(job.batch, search_points(space, settings_.search, state.origin));
  }

  // Whether the requested point is skipped from now on.
  bool give_up(const ClusterView& view, const JobView& job, State& state) const {
    const bool late = state.wanted.workers != 0 && view.now_s - state.wanted_since_s > settings_.give_up_s;
    if (!late || job.workers == state.wanted.workers) return false;
    state.skipped.push_back(state.wanted);
    state.wanted = {};
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
                       words("measuring %u workers of %u, point %u of %u of the search: %.0f of %.0f steps",
                             next->workers, next->local_batch, number, static_cast<unsigned>(plan.size()),
                             state.measured.steps_at(*next), settings_.steps_per_point),
                       {{"workers", next->workers}, {"local_batch", next->local_batch}, {"points", plan.size()}}};
    if (!(now == *next)) go(view, job, *next, state, decision);
    return true;
  }

  void go(const ClusterView& view, const JobView& job, const SearchPoint& point, State& state,
          JobDecision& decision) const {
    if (!(state.wanted == point)) state.wanted_since_s = view.now_s;
    state.wanted = point;
    if (point.workers != job.workers) decision.workers = point.workers;
    if (settings_.vary_batch && point.local_batch != job.batch.per_worker)
      decision.per_worker_batch = point.local_batch;
  }

  void fit(const ClusterView& view, const JobView& job, State& state) const {
    const SearchSpace space{geometric_sizes(state.limits.least, state.limits.most, settings_.sizes),
                            batches(job, settings_.sizes)};
    state.model = fit_step_times(settings_.form, state.measured.points(), settings_.search == SearchMode::kUniversal,
                                 space, workers_per_host(view.hosts));
  }

  PriceRule prices(const ClusterView& view, const JobView& job) const {
    PriceRule rule;
    rule.form = settings_.price;
    rule.base_local_batch = static_cast<double>(job.base_batch) / std::max(job.workers, 1U);
    rule.per_s = [all = Prices(view.hosts, job, settings_.price_per_worker_hour)](std::uint32_t workers) {
      return all.per_s(workers);
    };
    return rule;
  }

  static PlanWork work(const JobView& job, const State& state) {
    const double left = job.samples_total > 0 ? job.samples_total - job.samples_done : kNoEndSamples;
    return work_of(left, job.base_batch != 0 ? job.base_batch : job.global_batch, state.measured.noise_scale());
  }

  // The compared sizes and batches. Without the noise scale a larger batch would look free, so only the present one is
  // used.
  std::vector<SearchPoint> candidates(const JobView& job, const State& state, const SearchPoint& now) const {
    const bool any_batch = state.measured.noise_scale().has_value();
    const SearchSpace space =
        compared_space(state.limits.least, state.limits.most,
                       any_batch ? batches(job, kMostBatches) : std::vector{job.batch.per_worker});
    auto points = kept_to_limit(job.batch, allowed_points(space));
    std::erase_if(points, [&](const SearchPoint& point) {
      return point == now || std::find(state.skipped.begin(), state.skipped.end(), point) != state.skipped.end();
    });
    points.insert(points.begin(), now);  // first: the present point
    return points;
  }

  PlanGoal goal_now(const ClusterView& view, const JobView& job) const {
    PlanGoal goal = settings_.goal;
    if (goal.goal == Goal::kDeadline) goal.limit = std::max(0.0, goal.limit - view.now_s);
    if (goal.goal == Goal::kBudget) goal.limit = std::max(0.0, goal.limit - job.cost);
    return goal;
  }

  void settle(const ClusterView& view, const JobView& job, State& state, JobDecision& decision) const {
    if (state.considered_s > 0 && view.now_s - state.considered_s < settings_.reconsider_s) {
      decision.reason = state.settled;
      return;
    }
    state.considered_s = view.now_s;
    const SearchPoint now = present(job);
    auto points = plan_points(candidates(job, state, now), *state.model, work(job, state), prices(view, job),
                              state.measured.points());
    scale_to_present(points, state);
    const PlanGoal goal = goal_now(view, job);
    const PlanChoice choice = choose(points, goal);
    const PlanPoint& best = points[*choice.point];
    decision.reason = choice.reason;
    if (*choice.point != 0 && gain(points.front(), best, goal) > settings_.tolerance) {
      go(view, job, {best.workers, best.local_batch}, state, decision);
    } else if (*choice.point != 0) {
      decision.reason.code = "settled";
      decision.reason.text +=
          words("; %u of %u stay, within %.0f %%", now.workers, now.local_batch, 100 * settings_.tolerance);
    }
    state.settled = decision.reason;
    state.settled.code = "settled";
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

  // The relative gain for the goal of leaving `now` for `best`; infinite if a limit would be missed otherwise.
  static double gain(const PlanPoint& now, const PlanPoint& best, const PlanGoal& goal) {
    const double time = now.seconds > 0 ? 1 - best.seconds / now.seconds : 0;
    const double cost = now.cost > 0 ? 1 - best.cost / now.cost : 0;
    constexpr double kMust = std::numeric_limits<double>::infinity();
    switch (goal.goal) {
      case Goal::kFastest:
        return time;
      case Goal::kCheapest:
        return cost;
      case Goal::kKnee:
        return std::max(std::abs(time), std::abs(cost));
      case Goal::kDeadline:
        return now.seconds > goal.limit ? (time > 0 ? kMust : 0) : cost;
      case Goal::kBudget:
        return now.cost > goal.limit ? (cost > 0 ? kMust : 0) : time;
    }
    return 0;
  }

  Settings settings_;
};

std::unique_ptr<Policy> make(const Parameters& parameters) {
  Settings settings;
  settings.goal.goal = *goal_of(text(parameters, "goal"));
  settings.goal.limit =
      settings.goal.goal == Goal::kBudget ? number(parameters, "budget") : number(parameters, "deadline_s");
  settings.search = search_of(text(parameters, "search"));
  settings.form = step_time_form_of(text(parameters, "model"));
  settings.price = text(parameters, "price") == "memory" ? PriceForm::kMemory : PriceForm::kFlat;
  settings.price_per_worker_hour = number(parameters, "price_per_worker_hour");
  settings.vary_batch = flag(parameters, "vary_batch");
  settings.min_per_worker = whole(parameters, "min_per_worker");
  settings.max_per_worker = whole(parameters, "max_per_worker");
  settings.sizes = whole(parameters, "sizes");
  settings.steps_per_point = number(parameters, "steps_per_point");
  settings.give_up_s = number(parameters, "give_up_s");
  settings.tolerance = number(parameters, "tolerance");
  settings.reconsider_s = number(parameters, "reconsider_s");
  settings.follow = flag(parameters, "follow");
  return std::make_unique<Scavenger>(settings);
}

}  // namespace

PolicySpec scavenger_policy() {
  constexpr double kMostBatch = std::numeric_limits<std::uint32_t>::max();
  constexpr double kEver = 1e9;
  return {"scavenger",
          "measures a few sizes, then takes the fastest, the cheapest, the knee, or the one that meets a deadline or a "
          "budget",
          {{"goal", std::string("knee"), 0, 0, goal_names(),
            "fastest; cheapest; knee: where more time stops saving much; deadline: cheapest in time; budget: fastest "
            "within it"},
           {"deadline_s", kEver, 0, kEver, {}, "time by which the job must end, in seconds since its start"},
           {"budget", kEver, 0, 1e15, {}, "maximum cost of the whole job, in the unit of the prices"},
           {"search", std::string("partial"), 0, 0, search_names(),
            "sizes to measure: all, the ends and the middles, or only the present one"},
           {"model", std::string("components"), 0, 0, step_time_form_names(),
            "form of the step-time model; the paper's are planes over the batch of a worker or the global one"},
           {"price", std::string("flat"), 0, 0, {"flat", "memory"}, "memory: a worker's price grows with its batch"},
           {"price_per_worker_hour", 1.0, 0, 1e9, {}, "price of a worker on hosts without a price of their own"},
           {"vary_batch", false, 0, 0, {}, "whether to search the batch of a worker as well"},
           {"min_per_worker", 8.0, 1, kMostBatch, {}, "minimum samples of a worker, with vary_batch"},
           {"max_per_worker", 256.0, 1, kMostBatch, {}, "maximum samples of a worker, with vary_batch"},
           {"sizes", 5.0, 2, 64, {}, "numbers of workers (and batches) that a full search measures"},
           {"steps_per_point", 20.0, 1, 1e6, {}, "steps to measure at each point of the search"},
           {"give_up_s", 600.0, 1, kEver, {}, "seconds after which a size that is not reached is skipped"},
           {"tolerance", 0.05, 0, 1, {}, "relative gain below which a settled job keeps its size"},
           {"reconsider_s", 600.0, 1, kEver, {}, "seconds between two evaluations of a settled job"},
           {"follow", true, 0, 0, {}, "whether the job takes the best size; false: it only measures"}},
          make};
}

}  // namespace elastictrain::heuristics

#include "heuristics/scavenger/plan_curve.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

#include "heuristics/duration_text.h"

namespace elastictrain::heuristics {
namespace {

std::string amount(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

// "8 workers of 32: 1h 12m, cost 3.4".
std::string described(const PlanPoint& point) {
  return std::to_string(point.workers) + (point.workers == 1 ? " worker of " : " workers of ") +
         std::to_string(point.local_batch) + ": " + duration_text(point.seconds) + ", cost " + amount(point.cost);
}

// The best of the points that `allowed` accepts, by `first` and then by `second`.
template <typename Allowed>
std::optional<std::size_t> min_of(const std::vector<PlanPoint>& points, double PlanPoint::*first,
                                  double PlanPoint::*second, const Allowed& allowed) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!allowed(points[i])) continue;
    if (!best || points[i].*first < points[*best].*first ||
        (points[i].*first == points[*best].*first && points[i].*second < points[*best].*second))
      best = i;
  }
  return best;
}

// The fastest of those that cost as little as the cheapest, as far as measurements tell.
template <typename Allowed>
std::optional<std::size_t> cheapest_of(const std::vector<PlanPoint>& points, const Allowed& allowed) {
  const auto cheapest = min_of(points, &PlanPoint::cost, &PlanPoint::seconds, allowed);
  if (!cheapest) return cheapest;
  const double limit = points[*cheapest].cost * (1 + kCostTolerance);
  const auto as_cheap = [&](const PlanPoint& point) { return allowed(point) && point.cost <= limit; };
  return min_of(points, &PlanPoint::seconds, &PlanPoint::cost, as_cheap);
}

std::optional<std::size_t> pick(const std::vector<PlanPoint>& points, const PlanGoal& goal, bool limited) {
  const auto any = [](const PlanPoint&) { return true; };
  const auto in_time = [&](const PlanPoint& point) { return !limited || point.seconds <= goal.limit; };
  const auto in_budget = [&](const PlanPoint& point) { return !limited || point.cost <= goal.limit; };
  constexpr auto kSeconds = &PlanPoint::seconds;
  constexpr auto kCost = &PlanPoint::cost;
  switch (goal.goal) {
    case Goal::kFastest:
      return min_of(points, kSeconds, kCost, any);
    case Goal::kCheapest:
      return cheapest_of(points, any);
    case Goal::kKnee:
      return knee(points, pareto_front(points));
    case Goal::kDeadline:
      return limited ? cheapest_of(points, in_time) : min_of(points, kSeconds, kCost, any);
    case Goal::kBudget:
      return limited ? min_of(points, kSeconds, kCost, in_budget) : cheapest_of(points, any);
  }
  return std::nullopt;
}

bool costs_more_than_needed(const std::vector<PlanPoint>& points, const PlanGoal& goal, const PlanPoint& taken,
                            bool limit_met) {
  const bool in_time = goal.goal == Goal::kDeadline && limit_met;
  return std::any_of(points.begin(), points.end(), [&](const PlanPoint& point) {
    return point.cost < taken.cost * (1 - 1e-9) && (!in_time || point.seconds <= goal.limit);
  });
}

// `dearer`: it costs more than the cheapest, within the tolerance.
std::string because(const PlanGoal& goal, bool limit_met, bool dearer) {
  const std::string cheapest = dearer ? "the fastest that costs at most 2 % more than the cheapest" : "the cheapest";
  switch (goal.goal) {
    case Goal::kFastest:
      return "the fastest";
    case Goal::kCheapest:
      return cheapest;
    case Goal::kKnee:
      return "where more time stops saving much";
    case Goal::kDeadline:
      return limit_met ? cheapest + (dearer ? ", all within " : " within ") + duration_text(goal.limit)
                       : "nothing ends within " + duration_text(goal.limit) + "; the fastest";
    case Goal::kBudget:
      return limit_met ? "the fastest for at most " + amount(goal.limit)
                       : "nothing costs at most " + amount(goal.limit) + "; " + cheapest;
  }
  return "";
}

// Where the limit splits the batch, the lower ranks have one sample more than `local_batch`.
std::uint64_t global_batch_of(const PlanPoint& point, const BatchRule& rule) {
  const std::uint64_t split = global_batch(rule, point.workers);
  const bool is_split = point.workers > 0 && split / point.workers == point.local_batch;
  return is_split ? split : std::uint64_t{point.workers} * point.local_batch;
}

}  // namespace

double PriceRule::cost(const PlanPoint& point) const {
  if (!per_s) return 0;
  const bool memory = form == PriceForm::kMemory && base_local_batch > 0;
  return per_s(point.workers) * point.seconds * (memory ? point.local_batch / base_local_batch : 1);
}

std::vector<PlanPoint> plan_points(const std::vector<SearchPoint>& candidates, const StepTimeModel& steps,
                                   const PlanWork& work, const PriceRule& prices,
                                   const std::vector<StepTimePoint>& measured) {
  std::vector<PlanPoint> points;
  for (const auto& [workers, batch] : candidates) {
    PlanPoint point{.workers = workers, .local_batch = batch};
    const auto own = std::find_if(measured.begin(), measured.end(), [&](const StepTimePoint& candidate) {
      return candidate.workers == point.workers && candidate.local_batch == point.local_batch;
    });
    point.measured = own != measured.end();
    point.step_s = point.measured ? own->seconds : steps.seconds(point.workers, point.local_batch);
    point.global_batch = global_batch_of(point, work.batch);
    const auto global = static_cast<double>(point.global_batch);
    point.epochs = work.epochs.epochs(global);
    point.seconds = point.epochs * work.samples_per_epoch / global * point.step_s;
    point.cost = prices.cost(point);
    points.push_back(point);
  }
  return points;
}

std::vector<std::size_t> pareto_front(const std::vector<PlanPoint>& points) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (points[a].seconds != points[b].seconds) return points[a].seconds < points[b].seconds;
    return points[a].cost < points[b].cost;
  });
  std::vector<std::size_t> front;
  for (const auto index : order)
    if (front.empty() || points[index].cost < points[front.back()].cost) front.push_back(index);
  return front;
}

std::size_t knee(const std::vector<PlanPoint>& points, const std::vector<std::size_t>& front) {
  if (front.size() < 3) return front.empty() ? 0 : front.front();
  const PlanPoint& fastest = points[front.front()];
  const PlanPoint& cheapest = points[front.back()];
  if (fastest.cost <= cheapest.cost * (1 + kCostTolerance)) return front.front();
  std::size_t best = front.front();
  double farthest = 1e-9;
  for (const auto index : front) {
    const double time = (points[index].seconds - fastest.seconds) / (cheapest.seconds - fastest.seconds);
    const double cost = (points[index].cost - cheapest.cost) / (fastest.cost - cheapest.cost);
    const double below = 1 - time - cost;  // times sqrt(2): its distance from the line between (0, 1) and (1, 0)
    if (below <= farthest) continue;
    farthest = below;
    best = index;
  }
  return best;
}

PlanChoice choose(const std::vector<PlanPoint>& points, const PlanGoal& goal) {
  PlanChoice choice;
  if (points.empty()) {
    choice.reason = {"nothing_to_choose", "no number of workers and batch is allowed", {}};
    return choice;
  }
  choice.point = pick(points, goal, true);
  choice.limit_met = choice.point.has_value();
  if (!choice.point) choice.point = pick(points, goal, false);
  const PlanPoint& taken = points[*choice.point];
  choice.reason.code = goal_names()[static_cast<std::size_t>(goal.goal)];
  if (!choice.limit_met) choice.reason.code += "_missed";
  const bool dearer = costs_more_than_needed(points, goal, taken, choice.limit_met);
  const std::string why = because(goal, choice.limit_met, dearer);
  choice.reason.text = choice.limit_met ? described(taken) + " is " + why : why + " is " + described(taken);
  choice.reason.numbers = {{"size", taken.workers},  {"local_batch", taken.local_batch},
                           {"step_s", taken.step_s}, {"seconds", taken.seconds},
                           {"cost", taken.cost},     {"limit", goal.limit}};
  return choice;
}

PlanCurve plan_curve(std::vector<PlanPoint> points, const PlanGoal& goal, const std::string& cost_unit) {
  PlanCurve curve;
  curve.front = pareto_front(points);
  curve.choice = choose(points, goal);
  curve.points = std::move(points);
  curve.goal = goal;
  curve.cost_unit = cost_unit;
  return curve;
}

const std::vector<std::string>& goal_names() {
  static const std::vector<std::string> kNames{"fastest", "cheapest", "knee", "deadline", "budget"};
  return kNames;
}

std::optional<Goal> goal_of(const std::string& name) {
  const auto& names = goal_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Goal>(found - names.begin());
}

double gain_of_leaving(const PlanPoint& now, const PlanPoint& best, const PlanGoal& goal) {
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

}  // namespace elastictrain::heuristics

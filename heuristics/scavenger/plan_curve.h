// Purpose: time and cost of finishing a job for each number of workers and batch, and the choice between them
// (Scavenger, algorithms F): Time = steps * step time, Cost = price * Time, steps = epochs * samples / batch.
//
// Pure. Seconds, samples, and the unit of the prices. `elastictrain plan` draws these points and the policy "scavenger"
// chooses from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "heuristics/batch_plan.h"
#include "heuristics/policy/decision.h"
#include "heuristics/scavenger/epochs_model.h"
#include "heuristics/scavenger/search.h"
#include "heuristics/scavenger/step_time_model.h"

namespace elastictrain::heuristics {

struct PlanPoint {
  std::uint32_t workers = 0;
  std::uint32_t local_batch = 0;
  double step_s = 0;
  double epochs = 0;  // or any measure of the samples needed
  double seconds = 0;
  double cost = 0;
  bool measured = false;           // its step time is measured, not predicted
  std::uint64_t global_batch = 0;  // shares may differ by one sample: up to workers - 1 more than workers * local_batch
};

// kMemory: a worker's price grows with the memory of its batch, in proportion to local_batch / base_local_batch.
enum class PriceForm : std::uint8_t { kFlat, kMemory };

struct PriceRule {
  PriceForm form = PriceForm::kFlat;
  std::function<double(std::uint32_t)> per_s;  // of that many workers together; empty: everything is free
  double base_local_batch = 0;                 // the batch that the price includes memory for; 0: prices stay flat
  double cost(const PlanPoint& point) const;
};

struct PlanWork {
  double samples_per_epoch = 0;
  EpochsModel epochs;
  BatchRule batch;  // a candidate with the share that this gives has its global batch
};

// One point per candidate, in their order. A step time in `measured` replaces the model's.
std::vector<PlanPoint> plan_points(const std::vector<SearchPoint>& candidates, const StepTimeModel& steps,
                                   const PlanWork& work, const PriceRule& prices,
                                   const std::vector<StepTimePoint>& measured = {});

// The points that no other point beats in both time and cost, from the fastest to the cheapest, as indices.
std::vector<std::size_t> pareto_front(const std::vector<PlanPoint>& points);

// The point of the front that is farthest below the line between its ends, with time and cost each scaled to 0..1; the
// fastest if there is no bend. (The paper does not specify which knee it means; derived in algorithms F.)
std::size_t knee(const std::vector<PlanPoint>& points, const std::vector<std::size_t>& front);

enum class Goal : std::uint8_t { kFastest, kCheapest, kKnee, kDeadline, kBudget };

// Costs that differ by less than this part are equal: measured step times are not more exact. Of points that cost the
// same, the fastest is "the cheapest".
inline constexpr double kCostTolerance = 0.02;

// kDeadline: the cheapest that ends within `limit` seconds, or the fastest if none does. kBudget: the fastest that
// costs at most `limit`, or the cheapest if none does.
struct PlanGoal {
  Goal goal = Goal::kKnee;
  double limit = 0;
};

struct PlanChoice {
  std::optional<std::size_t> point;  // unset if there are no points
  bool limit_met = true;
  Reason reason;
};
PlanChoice choose(const std::vector<PlanPoint>& points, const PlanGoal& goal);
// The relative gain for the goal of leaving `now` for `best`; infinite if a limit would be missed otherwise.
double gain_of_leaving(const PlanPoint& now, const PlanPoint& best, const PlanGoal& goal);

// The content of a drawing.
struct PlanCurve {
  std::vector<PlanPoint> points;
  std::vector<std::size_t> front;
  PlanGoal goal;
  PlanChoice choice;
  std::string cost_unit;  // "$", or empty
};
PlanCurve plan_curve(std::vector<PlanPoint> points, const PlanGoal& goal, const std::string& cost_unit);

// "fastest", "cheapest", "knee", "deadline", "budget".
const std::vector<std::string>& goal_names();
std::optional<Goal> goal_of(const std::string& name);

}  // namespace elastictrain::heuristics

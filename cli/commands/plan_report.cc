#include "cli/commands/plan_report.h"

#include <cmath>

#include "cli/chart/plan_drawing.h"
#include "cli/output/figures.h"
#include "cli/output/table.h"
#include "supervisor/protocol/json_text.h"

namespace elastictrain::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

bool has_limit(heuristics::Goal goal) {
  return goal == heuristics::Goal::kDeadline || goal == heuristics::Goal::kBudget;
}

OrderedJson json_of(const heuristics::PlanCurve& curve, std::size_t index) {
  const heuristics::PlanPoint& point = curve.points[index];
  return {{"workers", point.workers},      {"batch", point.local_batch}, {"step_s", point.step_s},
          {"seconds", point.seconds},      {"cost", point.cost},         {"measured", point.measured},
          {"is", plan_marks(curve, index)}};
}

}  // namespace

std::string render_plan(const SizePlan& plan, std::size_t columns, bool unicode) {
  Table table({{"workers", Align::kRight},
               {"batch of each", Align::kRight},
               {"step", Align::kRight},
               {"steps measured", Align::kRight}});
  for (const auto& [point, steps] : plan.measured) {
    table.add_row({std::to_string(point.workers), format_number(point.local_batch, 0), format_duration(point.seconds),
                   format_number(steps, 0)});
  }
  std::string text = plan_text(plan.curve, columns, unicode) + "\n" + table.render();
  if (plan.noise_scale) {
    text += "\nThe gradients' noise scale is " + format_count(*plan.noise_scale) +
            " samples: a global batch of about that size is efficient.\n";
  }
  if (plan.sgd_noise) {
    text += "\nThe gradients' SGD noise is " + format_number(*plan.sgd_noise, 2) + " with a global batch of " +
            std::to_string(plan.base_batch) + " samples.\n";
  }
  for (const auto& note : plan.notes) text += "\n" + note;
  return plan.notes.empty() ? text : text + "\n";
}

std::string render_plan_json(const SizePlan& plan) {
  const heuristics::PlanCurve& curve = plan.curve;
  OrderedJson json;
  json["goal"] = heuristics::goal_names()[static_cast<std::size_t>(curve.goal.goal)];
  if (has_limit(curve.goal.goal)) {
    json["limit"] = curve.goal.limit;
    json["limit_met"] = curve.choice.limit_met;
  }
  json["choice"] = curve.choice.point ? json_of(curve, *curve.choice.point) : OrderedJson();
  json["reason"] = curve.choice.reason.text;
  json["points"] = OrderedJson::array();
  for (std::size_t i = 0; i < curve.points.size(); ++i) json["points"].push_back(json_of(curve, i));
  json["measured"] = OrderedJson::array();
  for (const auto& [point, steps] : plan.measured) {
    json["measured"].push_back({{"workers", point.workers},
                                {"batch", std::llround(point.local_batch)},
                                {"step_s", point.seconds},
                                {"steps", steps}});
  }
  if (plan.noise_scale) json["noise_scale"] = *plan.noise_scale;
  if (plan.sgd_noise) json["sgd_noise"] = *plan.sgd_noise;
  json["notes"] = plan.notes;
  return json_text(json) + "\n";
}

}  // namespace elastictrain::cli

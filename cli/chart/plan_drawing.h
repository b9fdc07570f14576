// Purpose: draws a plan of sizes and batches: cost over time, the Pareto front, and the chosen point; for a terminal
// and as SVG. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "heuristics/scavenger/plan_curve.h"

namespace elastictrain::cli {

// The roles of a point, of "chosen", "fastest", "cheapest", "knee", in this order.
std::vector<std::string> plan_marks(const heuristics::PlanCurve& curve, std::size_t index);

// A chart with `columns` columns (at least 40), then a table of the front and the chosen point, then the reason. Each
// line ends with a newline. Without `unicode` in ASCII.
std::string plan_text(const heuristics::PlanCurve& curve, std::size_t columns, bool unicode = true);

// A whole SVG document; `title` is any text.
std::string plan_svg(const heuristics::PlanCurve& curve, const std::string& title);

}  // namespace elastictrain::cli

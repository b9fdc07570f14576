// Purpose: draws a plan of sizes and batches: cost over time, the Pareto front, and the chosen point; for a terminal
// and as SVG. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "heuristics/scavenger/plan_curve.h"

namespace elastictrain::cli {

// Maps values to 0..1: logarithmic if the largest is more than ten times the smallest, from 0 if it is less than twice.
class PlanAxis {
 public:
  // For finite values. With one value or none, the range gets a margin.
  explicit PlanAxis(const std::vector<double>& values);
  double position(double value) const;
  std::vector<double> ticks() const;  // at round values, at least two if they fit
  bool logarithmic() const { return logarithmic_; }

 private:
  double low_ = 0;
  double high_ = 1;
  bool logarithmic_ = false;
};

// The roles of a point, of "chosen", "fastest", "cheapest", "knee", in this order.
std::vector<std::string> plan_marks(const heuristics::PlanCurve& curve, std::size_t index);

// A chart with `columns` columns (at least 40), then a table of the front and the chosen point, then the reason. Each
// line ends with a newline.
std::string plan_text(const heuristics::PlanCurve& curve, std::size_t columns);

// A whole SVG document; `title` is any text.
std::string plan_svg(const heuristics::PlanCurve& curve, const std::string& title);

}  // namespace elastictrain::cli

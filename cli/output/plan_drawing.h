// Purpose: draws a plan of sizes and batches: cost over time, the points nothing else beats, and the one that is
// chosen; for a terminal and as SVG. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "heuristics/scavenger/plan_curve.h"

namespace elastictrain::cli {

// Values on a line from 0 to 1: logarithmic where the largest is more than ten times the smallest.
class PlanAxis {
 public:
  // Of finite values; with one value, or none, there is some room around it.
  explicit PlanAxis(const std::vector<double>& values);
  double position(double value) const;
  std::vector<double> ticks() const;  // at round values, at least two where there is room for them
  bool logarithmic() const { return logarithmic_; }

 private:
  double low_ = 0;
  double high_ = 1;
  bool logarithmic_ = false;
};

// What a point is: of "chosen", "fastest", "cheapest", "knee", in this order.
std::vector<std::string> plan_marks(const heuristics::PlanCurve& curve, std::size_t index);

// A chart of so many columns (at least 40), then a table of the front and the chosen point, then why. Lines are ended.
std::string plan_text(const heuristics::PlanCurve& curve, std::size_t columns);

// A whole document; `title` is any text.
std::string plan_svg(const heuristics::PlanCurve& curve, const std::string& title);

}  // namespace elastictrain::cli

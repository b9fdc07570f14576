#include "cli/chart/plan_drawing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <set>
#include <string_view>

#include "cli/chart/axis.h"
#include "cli/chart/chart.h"
#include "cli/output/figures.h"
#include "cli/output/table.h"
#include "supervisor/protocol/display_text.h"

namespace elastictrain::cli {
namespace {

using heuristics::PlanCurve;
using heuristics::PlanPoint;

constexpr std::size_t kRows = 14;
constexpr std::string_view kTimeLabel = "  time";

std::string cost_text(const PlanCurve& curve, double cost) {
  if (std::abs(cost) >= 999.5) return curve.cost_unit + format_count(cost);
  char text[64];
  std::snprintf(text, sizeof text, "%.3g", cost);
  return curve.cost_unit + text;
}

chart::Axis axis_of(const PlanCurve& curve, double PlanPoint::*member, chart::Quantity quantity) {
  std::vector<double> values;
  for (const auto& point : curve.points) values.push_back(point.*member);
  return {values, quantity, chart::Span::kHonest};
}

bool is_chosen(const PlanCurve& curve, std::size_t index) {
  return curve.choice.point == index;
}

std::string marks_text(const PlanCurve& curve, std::size_t index) {
  std::string text;
  for (const auto& mark : plan_marks(curve, index)) text += ", " + mark;
  return text;
}

struct Canvas {
  std::vector<std::vector<std::string>> cells;  // rows from the top
  void put(double x, double y, const char* mark) {
    const auto columns = static_cast<double>(cells.front().size() - 1);
    const auto rows = static_cast<double>(cells.size() - 1);
    cells[static_cast<std::size_t>(std::lround((1 - y) * rows))][static_cast<std::size_t>(std::lround(x * columns))] =
        mark;
  }
};

constexpr std::size_t kLabelColumns = 10;
constexpr int kTicksUp = 5;
constexpr int kTicksAcross = 7;

struct Signs {
  const char *point, *front, *chosen, *side, *tick, *corner, *bottom;
};
constexpr Signs kUnicodeSigns = {"·", "o", "●", " │", " ┤", "└", "─"};
constexpr Signs kAsciiSigns = {".", "o", "@", " |", " +", "+", "-"};

std::string time_labels(const chart::Axis& time, std::size_t columns) {
  std::string line(columns, ' ');
  for (const chart::Tick& tick : time.ticks(kTicksAcross)) {
    const auto width = static_cast<double>(columns - kLabelColumns - 3);
    auto at = kLabelColumns + 2 + static_cast<std::size_t>(std::lround(time.position(tick.value) * width));
    at = std::min(at, columns - tick.label.size());
    const std::size_t gap = at > 0 ? at - 1 : at;
    if (line.find_first_not_of(' ', gap) == std::string::npos) line.replace(at, tick.label.size(), tick.label);
  }
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

std::string signs_text(const PlanCurve& curve, const Signs& signs) {
  std::string text;
  if (curve.choice.point) text += std::string("  ") + signs.chosen + " chosen\n";
  text += std::string("  ") + signs.front + " no other is both faster and cheaper\n";
  if (curve.points.size() > curve.front.size()) text += std::string("  ") + signs.point + " another one is\n";
  return text;
}

std::string drawn(const PlanCurve& curve, std::size_t columns, const Signs& signs) {
  const chart::Axis time = axis_of(curve, &PlanPoint::seconds, chart::Quantity::kSeconds);
  const chart::Axis cost = axis_of(curve, &PlanPoint::cost, chart::Quantity::kNumber);
  Canvas canvas{std::vector(kRows, std::vector<std::string>(columns - kLabelColumns - 2, " "))};
  const auto put = [&](std::size_t index, const char* mark) {
    canvas.put(time.position(curve.points[index].seconds), cost.position(curve.points[index].cost), mark);
  };
  for (std::size_t i = 0; i < curve.points.size(); ++i) put(i, signs.point);
  for (const auto index : curve.front) put(index, signs.front);
  if (curve.choice.point) put(*curve.choice.point, signs.chosen);

  std::vector<std::string> labels(kRows);
  for (const chart::Tick& tick : cost.ticks(kTicksUp))
    labels[static_cast<std::size_t>(std::lround((1 - cost.position(tick.value)) * (kRows - 1)))] =
        curve.cost_unit + tick.label;
  std::string text = "cost\n";
  for (std::size_t row = 0; row < kRows; ++row) {
    std::string line(kLabelColumns - std::min(kLabelColumns, display_width(labels[row])), ' ');
    line += labels[row] + (labels[row].empty() ? signs.side : signs.tick);
    for (const auto& cell : canvas.cells[row]) line += cell;
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  std::string axis = std::string(kLabelColumns + 1, ' ') + signs.corner;
  for (std::size_t i = 0; i < columns - kLabelColumns - 2; ++i) axis += signs.bottom;
  return text + axis + "\n" + time_labels(time, columns) + std::string(kTimeLabel) + "\n" + signs_text(curve, signs);
}

// --- The picture

constexpr std::size_t kMostNames = 100;

bool is_one_batch(const PlanCurve& curve) {
  return std::all_of(curve.points.begin(), curve.points.end(),
                     [&](const PlanPoint& point) { return point.local_batch == curve.points.front().local_batch; });
}

std::string dot_name(const PlanCurve& curve, std::size_t index, bool one_batch) {
  const PlanPoint& point = curve.points[index];
  const std::string size = std::to_string(point.workers) + (one_batch ? "" : "×" + std::to_string(point.local_batch));
  const std::string marks = marks_text(curve, index);
  return marks.empty() ? size : size + ": " + marks.substr(2);
}

chart::Dot dot_of(const PlanCurve& curve, std::size_t index, const char* role) {
  const PlanPoint& point = curve.points[index];
  chart::Dot dot;
  dot.x = point.seconds;
  dot.y = point.cost;
  dot.classes = std::string(role) + (point.measured ? "" : " hollow");
  dot.title = protocol::counted(point.workers, "worker") + " of " + std::to_string(point.local_batch) + ": " +
              format_duration(point.seconds) + ", cost " + cost_text(curve, point.cost) +
              (point.measured ? ", measured" : ", predicted") + marks_text(curve, index);
  return dot;
}

// The chosen one, those with a role, the front, the others: in this order they get their names.
std::vector<std::size_t> by_importance(const PlanCurve& curve) {
  std::vector<std::size_t> order(curve.points.size());
  std::iota(order.begin(), order.end(), 0);
  const std::set<std::size_t> front(curve.front.begin(), curve.front.end());
  const auto rank = [&](std::size_t index) {
    return is_chosen(curve, index) ? 0 : !plan_marks(curve, index).empty() ? 1 : front.contains(index) ? 2 : 3;
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  return order;
}

std::vector<chart::Dot> dots_of(const PlanCurve& curve) {
  const bool one_batch = is_one_batch(curve);
  const std::set<std::size_t> front(curve.front.begin(), curve.front.end());
  std::vector<chart::Dot> dots;
  for (const std::size_t index : by_importance(curve)) {
    dots.push_back(dot_of(curve, index,
                          is_chosen(curve, index) ? "chosen"
                          : front.contains(index) ? "front"
                                                  : "beaten"));
    if (dots.size() <= kMostNames) dots.back().name = dot_name(curve, index, one_batch);
  }
  return dots;
}

std::vector<chart::LegendEntry> legend_of(const PlanCurve& curve) {
  return {{"chosen", chart::Sign::kDot,
           "chosen; each point is named by its workers" + std::string(is_one_batch(curve) ? "" : "×batch of each")},
          {"front", chart::Sign::kDot, "no other is both faster and cheaper"},
          {"beaten", chart::Sign::kDot, "another is faster and cheaper"},
          {"front hollow", chart::Sign::kDot, "hollow: predicted, not measured"}};
}

}  // namespace

std::vector<std::string> plan_marks(const PlanCurve& curve, std::size_t index) {
  std::vector<std::string> marks;
  if (is_chosen(curve, index)) marks.emplace_back("chosen");
  if (curve.front.empty()) return marks;
  if (index == curve.front.front()) marks.emplace_back("fastest");
  if (index == curve.front.back()) marks.emplace_back("cheapest");
  if (index == heuristics::knee(curve.points, curve.front)) marks.emplace_back("knee");
  return marks;
}

std::string plan_text(const PlanCurve& curve, std::size_t columns, bool unicode) {
  if (curve.points.empty()) return curve.choice.reason.text + "\n";
  Table table({{"workers", Align::kRight},
               {"batch of each", Align::kRight},
               {"step", Align::kRight},
               {"time", Align::kRight},
               {"cost", Align::kRight},
               {""}});
  std::vector<std::size_t> shown = curve.front;
  if (curve.choice.point && std::find(shown.begin(), shown.end(), *curve.choice.point) == shown.end())
    shown.push_back(*curve.choice.point);
  for (const auto index : shown) {
    const PlanPoint& point = curve.points[index];
    table.add_row({std::to_string(point.workers), std::to_string(point.local_batch), format_duration(point.step_s),
                   format_duration(point.seconds), cost_text(curve, point.cost),
                   std::string(point.measured ? "measured" : "predicted") + marks_text(curve, index)});
  }
  return drawn(curve, std::max<std::size_t>(columns, 40) - kTimeLabel.size(), unicode ? kUnicodeSigns : kAsciiSigns) +
         "\n" + table.render() + "\n" + curve.choice.reason.text + "\n";
}

std::string plan_svg(const PlanCurve& curve, const std::string& title) {
  if (curve.points.empty()) return chart::document(title, curve.choice.reason.text, {});
  chart::Panel panel;
  panel.chart.title = "cost over time to the end" + (curve.cost_unit.empty() ? "" : ", in " + curve.cost_unit);
  panel.chart.height_px = 320;
  panel.chart.x = axis_of(curve, &PlanPoint::seconds, chart::Quantity::kSeconds);
  panel.chart.y = axis_of(curve, &PlanPoint::cost, chart::Quantity::kNumber);
  panel.chart.joins_front = true;
  panel.chart.dots = dots_of(curve);
  panel.x_title = "time to the end";
  panel.legend = legend_of(curve);
  return chart::document(title, curve.choice.reason.text, {panel});
}

}  // namespace elastictrain::cli

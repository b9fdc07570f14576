#include "cli/output/plan_drawing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <string_view>

#include "cli/output/figures.h"
#include "cli/output/svg_escaped.h"
#include "cli/output/table.h"

namespace elastictrain::cli {
namespace {

using heuristics::PlanCurve;
using heuristics::PlanPoint;

constexpr std::size_t kRows = 14;
constexpr std::string_view kTimeLabel = "  time";
constexpr double kWidth = 720;
constexpr double kHeight = 440;
constexpr double kLeft = 80;
constexpr double kRight = 24;
constexpr double kTop = 48;
constexpr double kBottom = 56;

std::string printed(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// In seconds: the unit in which a time axis has round values.
double unit_of(const PlanCurve& curve) {
  double max = 0;
  for (const auto& point : curve.points) max = std::max(max, point.seconds);
  return max >= 2 * 3600 ? 3600 : max >= 120 ? 60 : 1;
}

std::string cost_text(const PlanCurve& curve, double cost) {
  return curve.cost_unit + printed("%.3g", cost);
}

std::vector<double> values_of(const PlanCurve& curve, double PlanPoint::*member, double unit = 1) {
  std::vector<double> values;
  for (const auto& point : curve.points) values.push_back(point.*member / unit);
  return values;
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

std::string chart(const PlanCurve& curve, std::size_t columns) {
  const double unit = unit_of(curve);
  const PlanAxis time(values_of(curve, &PlanPoint::seconds, unit));
  const PlanAxis cost(values_of(curve, &PlanPoint::cost));
  constexpr std::size_t kLabel = 10;
  Canvas canvas{std::vector(kRows, std::vector<std::string>(columns - kLabel - 2, " "))};
  const auto put = [&](std::size_t index, const char* mark) {
    canvas.put(time.position(curve.points[index].seconds / unit), cost.position(curve.points[index].cost), mark);
  };
  for (std::size_t i = 0; i < curve.points.size(); ++i) put(i, "·");
  for (const auto index : curve.front) put(index, "o");
  if (curve.choice.point) put(*curve.choice.point, "●");

  std::vector<std::string> labels(kRows);
  for (const double tick : cost.ticks())
    labels[static_cast<std::size_t>(std::lround((1 - cost.position(tick)) * (kRows - 1)))] = cost_text(curve, tick);
  std::string text = "cost\n";
  for (std::size_t row = 0; row < kRows; ++row) {
    std::string line(kLabel - std::min(kLabel, display_width(labels[row])), ' ');
    line += labels[row] + (labels[row].empty() ? " │" : " ┤");
    for (const auto& cell : canvas.cells[row]) line += cell;
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  std::string axis(kLabel + 1, ' ');
  axis += "└";
  for (std::size_t i = 0; i < columns - kLabel - 2; ++i) axis += "─";
  std::string ticks(columns, ' ');
  for (const double tick : time.ticks()) {
    const std::string label = format_duration(tick * unit);
    auto at = kLabel + 2 + static_cast<std::size_t>(std::lround(time.position(tick) * (columns - kLabel - 3.0)));
    at = std::min(at, columns - label.size());
    if (ticks.find_first_not_of(' ', at > 0 ? at - 1 : at) == std::string::npos) ticks.replace(at, label.size(), label);
  }
  return text + axis + "\n" + ticks.substr(0, ticks.find_last_not_of(' ') + 1) + std::string(kTimeLabel) + "\n";
}

std::string svg_text(double x, double y, const char* attributes, const std::string& text) {
  return "<text x=\"" + printed("%.1f", x) + "\" y=\"" + printed("%.1f", y) + "\" " + attributes + ">" +
         svg_escaped(text) + "</text>\n";
}

std::string svg_line(double x1, double y1, double x2, double y2, const char* colour) {
  return "<line x1=\"" + printed("%.1f", x1) + "\" y1=\"" + printed("%.1f", y1) + "\" x2=\"" + printed("%.1f", x2) +
         "\" y2=\"" + printed("%.1f", y2) + "\" stroke=\"" + colour + "\"/>\n";
}

struct Frame {
  double unit_s;
  PlanAxis time;
  PlanAxis cost;
  double x(double seconds) const { return kLeft + time.position(seconds / unit_s) * (kWidth - kLeft - kRight); }
  double y(double value) const { return kHeight - kBottom - cost.position(value) * (kHeight - kTop - kBottom); }
};

std::string svg_axes(const PlanCurve& curve, const Frame& frame) {
  std::string text;
  for (const double tick : frame.time.ticks()) {
    const double x = frame.x(tick * frame.unit_s);
    text += svg_line(x, kTop, x, kHeight - kBottom, "#ddd");
    text += svg_text(x, kHeight - kBottom + 18, "text-anchor=\"middle\"", format_duration(tick * frame.unit_s));
  }
  for (const double tick : frame.cost.ticks()) {
    text += svg_line(kLeft, frame.y(tick), kWidth - kRight, frame.y(tick), "#ddd");
    text += svg_text(kLeft - 8, frame.y(tick) + 4, "text-anchor=\"end\"", cost_text(curve, tick));
  }
  text += svg_line(kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom, "#333");
  text += svg_line(kLeft, kTop, kLeft, kHeight - kBottom, "#333");
  text += svg_text((kLeft + kWidth - kRight) / 2, kHeight - 12, "text-anchor=\"middle\"", "time to the end");
  text += svg_text(16, kTop - 12, "", "cost");
  return text;
}

std::string svg_points(const PlanCurve& curve, const Frame& frame) {
  std::string text = "<polyline fill=\"none\" stroke=\"#1f77b4\" points=\"";
  for (const auto index : curve.front)
    text += printed("%.1f", frame.x(curve.points[index].seconds)) + "," +
            printed("%.1f ", frame.y(curve.points[index].cost));
  text += "\"/>\n";
  const std::set<std::size_t> front(curve.front.begin(), curve.front.end());
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const PlanPoint& point = curve.points[i];
    const char* colour = is_chosen(curve, i) ? "#d62728" : front.contains(i) ? "#1f77b4" : "#bbb";
    text += "<circle cx=\"" + printed("%.1f", frame.x(point.seconds)) + "\" cy=\"" +
            printed("%.1f", frame.y(point.cost)) + "\" r=\"" + (is_chosen(curve, i) ? "7" : "4") + "\" fill=\"" +
            (point.measured || is_chosen(curve, i) ? colour : "white") + "\" stroke=\"" + colour + "\"><title>" +
            svg_escaped(std::to_string(point.workers) + " workers of " + std::to_string(point.local_batch) + ": " +
                        format_duration(point.seconds) + ", " + cost_text(curve, point.cost) +
                        (point.measured ? ", measured" : ", predicted") + marks_text(curve, i)) +
            "</title></circle>\n";
    if (const std::string marks = marks_text(curve, i); !marks.empty()) {
      text += svg_text(frame.x(point.seconds) + 10, frame.y(point.cost) - 8, "fill=\"#555\"", marks.substr(2));
    }
  }
  return text;
}

constexpr int kMaxSteps = 7;  // of an axis that is not logarithmic

}  // namespace

PlanAxis::PlanAxis(const std::vector<double>& values) {
  if (values.empty()) return;
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  low_ = *min;
  high_ = *max;
  logarithmic_ = low_ > 0 && high_ > 10 * low_;
  if (low_ > 0 && high_ < 2 * low_) {  // otherwise a small difference would look large
    low_ = 0;
    high_ *= 1.1;
    return;
  }
  // Rounding makes equal values differ a little.
  if (high_ - low_ > 1e-6 * std::max(std::abs(low_), std::abs(high_))) return;
  const double room = std::max(std::abs(low_) / 2, 1e-9);
  low_ -= room;
  high_ += room;
}

double PlanAxis::position(double value) const {
  const double part = logarithmic_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return std::clamp(part, 0.0, 1.0);
}

std::vector<double> PlanAxis::ticks() const {
  std::vector<double> ticks;
  if (logarithmic_) {
    const bool sparse = high_ > 1e3 * low_;
    for (double power = std::pow(10, std::floor(std::log10(low_))); power <= high_; power *= 10)
      for (const double step : {1.0, 2.0, 5.0})
        if (power * step >= low_ && power * step <= high_ && (step == 1 || !sparse)) ticks.push_back(power * step);
    return ticks;
  }
  double step = std::pow(10, std::floor(std::log10((high_ - low_) / 3)));
  if ((high_ - low_) / step > 6) step *= 2;
  if ((high_ - low_) / step > 6) step *= 2.5;
  const double first = std::ceil(low_ / step);
  for (int i = 0; i <= kMaxSteps && (first + i) * step <= high_ + 1e-9 * step; ++i) ticks.push_back((first + i) * step);
  return ticks;
}

std::vector<std::string> plan_marks(const PlanCurve& curve, std::size_t index) {
  std::vector<std::string> marks;
  if (is_chosen(curve, index)) marks.emplace_back("chosen");
  if (curve.front.empty()) return marks;
  if (index == curve.front.front()) marks.emplace_back("fastest");
  if (index == curve.front.back()) marks.emplace_back("cheapest");
  if (index == heuristics::knee(curve.points, curve.front)) marks.emplace_back("knee");
  return marks;
}

std::string plan_text(const PlanCurve& curve, std::size_t columns) {
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
  return chart(curve, std::max<std::size_t>(columns, 40) - kTimeLabel.size()) + "\n" + table.render() + "\n" +
         curve.choice.reason.text + "\n";
}

std::string plan_svg(const PlanCurve& curve, const std::string& title) {
  const double unit = unit_of(curve);
  const Frame frame{unit, PlanAxis(values_of(curve, &PlanPoint::seconds, unit)),
                    PlanAxis(values_of(curve, &PlanPoint::cost))};
  std::string text = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + printed("%.0f", kWidth) + " " +
                     printed("%.0f", kHeight) + "\" font-family=\"sans-serif\" font-size=\"12\">\n" +
                     "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  text += svg_text(kLeft, 20, "font-size=\"15\"", title);
  text += svg_text(kLeft, 38, "fill=\"#555\"", curve.choice.reason.text);
  if (!curve.points.empty()) text += svg_axes(curve, frame) + svg_points(curve, frame);
  return text + "</svg>\n";
}

}  // namespace elastictrain::cli

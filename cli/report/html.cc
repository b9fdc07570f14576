#include "cli/report/html.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "cli/output/figures.h"
#include "cli/output/printable.h"
#include "cli/output/svg_escaped.h"

namespace elastictrain::cli::run_report {
namespace {

constexpr double kBoxWidth = 1000;
constexpr double kBoxHeight = 100;
constexpr int kTimeTicks = 6;
constexpr int kValueTicks = 4;

// The value axis of a curve: its range holds all values and has some room.
struct Range {
  double low = 0;
  double high = 1;
  double y(double value) const { return kBoxHeight * (1 - std::clamp((value - low) / (high - low), 0.0, 1.0)); }
};

Range range_of(const Curve& curve) {
  bool any = false;
  Range range{0, 0};
  for (const auto& piece : curve.pieces) {
    for (const CurvePoint& point : piece) {
      range.low = any ? std::min(range.low, point.low) : point.low;
      range.high = any ? std::max(range.high, point.high) : point.high;
      any = true;
    }
  }
  if (curve.from_zero) range.low = std::min(range.low, 0.0);
  const double room = std::max(0.05 * (range.high - range.low), 1e-9 + 1e-3 * std::abs(range.high));
  range.high += room;
  if (!curve.from_zero) range.low -= room;
  return range;
}

double x_of(const Curve& curve, double at) {
  return kBoxWidth * std::clamp(at / curve.end, 0.0, 1.0);
}

std::string point_text(double x, double y) {
  return number_text(x, 1) + "," + number_text(y, 1) + " ";
}

std::string line_of(const Curve& curve, const std::vector<CurvePoint>& piece, const Range& range) {
  std::string points;
  double last_y = 0;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const double x = x_of(curve, piece[i].at);
    const double y = range.y(piece[i].value);
    if (curve.steps && i > 0) points += point_text(x, last_y);
    points += point_text(x, y);
    last_y = y;
  }
  if (piece.size() == 1) points += point_text(std::min(x_of(curve, piece[0].at) + 2, kBoxWidth), last_y);
  return "<polyline class=\"line\" points=\"" + points + "\"/>";
}

// From the lowest to the highest value of each bucket.
std::string band_of(const Curve& curve, const std::vector<CurvePoint>& piece, const Range& range) {
  if (curve.steps || piece.size() < 2) return "";
  std::string points;
  for (const CurvePoint& point : piece) points += point_text(x_of(curve, point.at), range.y(point.high));
  for (auto point = piece.rbegin(); point != piece.rend(); ++point) {
    points += point_text(x_of(curve, point->at), range.y(point->low));
  }
  return "<polygon class=\"band\" points=\"" + points + "\"/>";
}

std::string grid_line(double x1, double y1, double x2, double y2) {
  return "<line class=\"grid\" x1=\"" + number_text(x1, 1) + "\" y1=\"" + number_text(y1, 1) + "\" x2=\"" +
         number_text(x2, 1) + "\" y2=\"" + number_text(y2, 1) + "\"/>";
}

std::string marker_text(const Curve& curve, const Marker& marker) {
  const std::string x = number_text(x_of(curve, marker.at), 1);
  return "<line class=\"mark " + marker.classes + "\" x1=\"" + x + "\" y1=\"0\" x2=\"" + x + "\" y2=\"100\"><title>" +
         escaped(marker.title) + "</title></line>";
}

std::string labels_of(const Curve& curve, const Range& range) {
  std::string labels;
  for (const double tick : value_ticks(range.low, range.high, kValueTicks)) {
    labels += "<span class=\"y\" style=\"top:" + number_text(range.y(tick), 2) + "%\">" + escaped(format_count(tick)) +
              "</span>";
  }
  int index = 0;
  for (const double tick : time_ticks(curve.end, kTimeTicks)) {
    labels += "<span class=\"x" + std::string(index++ % 2 == 1 ? " odd" : "") +
              "\" style=\"left:" + number_text(100 * tick / curve.end, 2) + "%\">" +
              (tick == 0 ? "0" : escaped(format_duration(tick))) + "</span>";
  }
  return labels;
}

}  // namespace

std::string escaped(const std::string& text) {
  return svg_escaped(printable(text, Lines::kOne));
}

std::string number_text(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, std::isfinite(value) ? value : 0.0);
  std::string out = text.data();
  if (out.find('.') == std::string::npos) return out;
  out.erase(out.find_last_not_of('0') + 1);
  if (out.ends_with('.')) out.pop_back();
  return out == "-0" ? "0" : out;
}

std::string element(const std::string& tag, const std::string& classes, const std::string& content) {
  return "<" + tag + (classes.empty() ? "" : " class=\"" + classes + "\"") + ">" + content + "</" + tag + ">\n";
}

std::string table(const std::vector<TableColumn>& columns, const std::vector<std::vector<std::string>>& rows,
                  std::uint64_t left_out) {
  std::string text = "<div class=\"scroll\"><table><thead><tr>";
  for (const TableColumn& column : columns) {
    text += std::string("<th") + (column.is_number ? " class=\"number\"" : "") + ">" + escaped(column.title) + "</th>";
  }
  text += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    text += "<tr>";
    for (std::size_t i = 0; i < row.size() && i < columns.size(); ++i) {
      text += std::string("<td") + (columns[i].is_number ? " class=\"number\"" : "") + ">" + escaped(row[i]) + "</td>";
    }
    text += "</tr>\n";
  }
  text += "</tbody></table></div>\n";
  if (left_out > 0)
    text += element("p", "note",
                    std::to_string(left_out) + " more between the first and the last ones: elastictrain events");
  return text;
}

std::vector<double> value_ticks(double low, double high, int most) {
  if (!(high > low) || !std::isfinite(high - low)) return {low};
  double step = std::pow(10, std::floor(std::log10((high - low) / most)));
  for (const double factor : {2.0, 2.5, 2.0}) {
    if ((high - low) / step <= most) break;
    step *= factor;
  }
  std::vector<double> ticks;
  const double first = std::ceil(low / step - 1e-9);
  for (int i = 0; i <= 2 * most && (first + i) * step <= high + 1e-9 * step; ++i) ticks.push_back((first + i) * step);
  return ticks;
}

std::vector<double> time_ticks(double end, int most) {
  constexpr double kSteps[] = {0.1, 0.2, 0.5,  1,    2,    5,     10,    20,    30,    60,     120,   300,
                               600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000};
  double step = kSteps[0];
  for (const double one : kSteps) {
    step = one;
    if (end / step <= most) break;
  }
  while (end / step > most) step *= 2;
  std::vector<double> ticks;
  const double last = end * (1 + 1e-9);  // a multiple of 0.1 may be a bit above
  for (int i = 0; i * step <= last; ++i) ticks.push_back(i * step);
  return ticks;
}

std::string draw(const Curve& curve) {
  const Range range = range_of(curve);
  std::string svg = "<svg viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"" +
                    escaped(curve.title) + "\">";
  for (const double tick : value_ticks(range.low, range.high, kValueTicks)) {
    svg += grid_line(0, range.y(tick), kBoxWidth, range.y(tick));
  }
  for (const double tick : time_ticks(curve.end, kTimeTicks)) {
    svg += grid_line(x_of(curve, tick), 0, x_of(curve, tick), kBoxHeight);
  }
  for (const auto& piece : curve.pieces) svg += band_of(curve, piece, range);
  for (const Marker& marker : curve.markers) svg += marker_text(curve, marker);
  for (const auto& piece : curve.pieces) svg += line_of(curve, piece, range);
  svg += "</svg>";
  return element("h3", "", escaped(curve.title) + " <small>" + escaped(curve.unit) + "</small>") +
         element("div", "chart", svg + labels_of(curve, range));
}

}  // namespace elastictrain::cli::run_report

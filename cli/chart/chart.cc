#include "cli/chart/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "cli/output/printable.h"
#include "cli/output/table.h"

namespace elastictrain::cli::chart {

std::string escaped(const std::string& text) {
  std::string markup;
  for (const char c : printable(text, Lines::kOne)) {
    switch (c) {
      case '&':
        markup += "&amp;";
        break;
      case '<':
        markup += "&lt;";
        break;
      case '>':
        markup += "&gt;";
        break;
      case '"':
        markup += "&quot;";
        break;
      default:
        markup += c;
    }
  }
  return markup;
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

namespace {

// Curves and areas are drawn in a box of this size, which stretches; everything else is placed in percent.
constexpr double kBoxWidth = 1000;
constexpr double kBoxHeight = 100;
constexpr double kTop_px = 8;
constexpr double kRight_px = 14;
constexpr double kBelow_px = 24;  // for the labels of the times
constexpr int kTicksAcross = 6;
constexpr double kPixelsOfATick = 36;  // of the height
constexpr double kLetter_px = 7.2;     // of wide ones; they are 12 px high
constexpr double kLine_px = 17;
constexpr std::array<double, 3> kWidths_px = {400, 800, 1600};  // at which names of dots must not meet

std::string attribute(const char* name, const std::string& value) {
  return " " + std::string(name) + "=\"" + value + "\"";
}

std::string percent(double part) {
  return number_text(100 * part, 2) + "%";
}

std::string px(double value) {
  return number_text(value, 1);
}

std::string titled(const std::string& title) {
  return title.empty() ? "" : "<title>" + escaped(title) + "</title>";
}

// --- Axes

std::string grid_line(const std::string& x1, const std::string& y1, const std::string& x2, const std::string& y2) {
  return "<line class=\"grid\"" + attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) +
         attribute("y2", y2) + "/>";
}

std::string value_axis(const Chart& chart) {
  std::string svg;
  for (const Tick& tick : chart.y.ticks(std::max(2, static_cast<int>(chart.height_px / kPixelsOfATick)))) {
    const std::string y = percent(1 - chart.y.position(tick.value));
    svg += grid_line("0", y, "100%", y) + "<text class=\"y\" x=\"-6\" dy=\".35em\"" + attribute("y", y) + ">" +
           escaped(tick.label) + "</text>";
  }
  return svg;
}

std::string row_names(const Chart& chart) {
  std::string svg;
  const auto letters = static_cast<std::size_t>((chart.left_px - 8) / kLetter_px);
  for (std::size_t row = 0; row < chart.rows.size(); ++row) {
    const double y = (static_cast<double>(row) + 0.5) / static_cast<double>(chart.rows.size());
    svg += "<text class=\"y\" x=\"-6\" dy=\".35em\"" + attribute("y", percent(y)) + ">" +
           escaped(fit(chart.rows[row], letters)) + "</text>";
  }
  return svg;
}

// Labels at the ends stay inside. Each second one is hidden where the chart is narrow, if there are many.
std::string across_axis(const Chart& chart) {
  const std::vector<Tick> ticks = chart.x.ticks(kTicksAcross);
  std::string svg;
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    const double part = chart.x.position(ticks[i].value);
    const std::string x = percent(part);
    const bool crowded = ticks.size() > 3 && i % 2 == 1;
    svg += grid_line(x, "0", x, "100%") + "<text class=\"x" +
           (part < 0.02   ? " first"
            : part > 0.97 ? " last"
                          : "") +
           (crowded ? " odd" : "") + "\" y=\"100%\" dy=\"16\"" + attribute("x", x) + ">" + escaped(ticks[i].label) +
           "</text>";
  }
  return svg;
}

// --- Curves

std::string point_text(double x, double y) {
  return number_text(kBoxWidth * x, 1) + "," + number_text(kBoxHeight * (1 - y), 2) + " ";
}

// The line through the points; in steps each value stays until the next point.
std::string path(const Chart& chart, const Curve& curve, const std::vector<CurvePoint>& piece,
                 double CurvePoint::*member) {
  std::string points;
  double last_y = 0;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const double x = chart.x.position(piece[i].at);
    const double y = chart.y.position(piece[i].*member);
    if (curve.steps && i > 0 && y != last_y) points += point_text(x, last_y);
    if (!curve.steps || i == 0 || i + 1 == piece.size() || y != last_y) points += point_text(x, y);
    last_y = y;
  }
  return points;
}

std::string reversed(const Chart& chart, const Curve& curve, const std::vector<CurvePoint>& piece) {
  const std::string forth = path(chart, curve, piece, &CurvePoint::low);
  std::string back;
  for (std::size_t end = forth.size(); end > 0;) {
    const std::size_t begin = end < 2 ? std::string::npos : forth.rfind(' ', end - 2);
    const std::size_t from = begin == std::string::npos ? 0 : begin + 1;
    back += forth.substr(from, end - from);
    end = from;
  }
  return back;
}

std::string band(const Chart& chart, const Curve& curve) {
  if (!curve.band) return "";
  std::string svg;
  for (const auto& piece : curve.pieces) {
    if (piece.size() < 2) continue;
    svg += "<polygon class=\"" + std::string(curve.line ? "band " : "stack ") + curve.classes + "\"" +
           attribute("points", path(chart, curve, piece, &CurvePoint::high) + reversed(chart, curve, piece)) + "/>";
  }
  return svg;
}

std::string line(const Chart& chart, const Curve& curve) {
  if (!curve.line) return "";
  std::string svg;
  for (auto piece : curve.pieces) {
    std::string points = path(chart, curve, piece, &CurvePoint::value);
    if (piece.size() == 1) {  // a point alone is a short line
      const double x = chart.x.position(piece[0].at);
      points += point_text(x < 0.5 ? x + 0.004 : x - 0.004, chart.y.position(piece[0].value));
    }
    svg += "<polyline class=\"line " + curve.classes + "\"" + attribute("points", points) + "/>";
  }
  return svg;
}

std::string stretched(const Chart& chart) {
  std::string svg;
  for (const Curve& curve : chart.curves) svg += band(chart, curve);
  if (chart.joins_front) {
    std::vector<const Dot*> front;
    for (const Dot& dot : chart.dots) {
      if (dot.classes.starts_with("beaten")) continue;
      front.push_back(&dot);
    }
    std::sort(front.begin(), front.end(), [](const Dot* a, const Dot* b) { return a->x < b->x; });
    std::string points;
    for (const Dot* dot : front) points += point_text(chart.x.position(dot->x), chart.y.position(dot->y));
    if (front.size() > 1) svg += "<polyline class=\"join\"" + attribute("points", points) + "/>";
  }
  for (const Curve& curve : chart.curves) svg += line(chart, curve);
  if (svg.empty()) return "";
  return "<svg viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" width=\"100%\" height=\"100%\">" + svg + "</svg>";
}

// --- Marks, cells

std::string marks(const Chart& chart) {
  std::string svg;
  for (const Mark& mark : chart.marks) {
    const std::string x = percent(chart.x.position(mark.at));
    svg += "<line class=\"mark " + mark.classes + "\"" + attribute("x1", x) + " y1=\"0\"" + attribute("x2", x) +
           " y2=\"100%\">" + titled(mark.title) + "</line>";
  }
  return svg;
}

std::string cells(const Chart& chart) {
  const auto count = static_cast<double>(std::max<std::size_t>(chart.rows.size(), 1));
  std::string svg;
  for (const Cell& cell : chart.cells) {
    const double from = chart.x.position(cell.from);
    svg +=
        "<rect class=\"cell\"" + attribute("x", percent(from)) +
        attribute("y", percent((static_cast<double>(cell.row) + 0.06) / count)) +
        attribute("width", percent(chart.x.position(cell.until) - from)) + attribute("height", percent(0.88 / count)) +
        attribute("fill-opacity", number_text(cell_opacity(cell.strength), 2)) + ">" + titled(cell.title) + "</rect>";
  }
  return svg;
}

// A stroke across the row; a cross where it failed. In a box of its own, whose middle is the place.
std::string row_ends(const Chart& chart) {
  const auto count = static_cast<double>(std::max<std::size_t>(chart.rows.size(), 1));
  std::string svg;
  for (const RowEnd& end : chart.row_ends) {
    svg += "<svg overflow=\"visible\"" + attribute("x", percent(chart.x.position(end.at))) +
           attribute("y", percent((static_cast<double>(end.row) + 0.5) / count)) + "><path class=\"end" +
           (end.failed ? " failed\" d=\"M-4-4L4 4M-4 4L4-4" : "\" d=\"M0-6V6") + "\">" + titled(end.title) +
           "</path></svg>";
  }
  return svg;
}

// --- Dots and their names

struct Box {
  double left, right, top, bottom;
  bool meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

struct Place {
  double dx, dy;  // of the first letter's lower left corner, or the last one's lower right corner
  bool before;    // the name ends left of the dot
};
// Above first: a line through the dots goes on beside or below them.
constexpr std::array<Place, 8> kPlaces = {Place{7, -8, false},   Place{-7, -8, true},  Place{9, 4, false},
                                          Place{-9, 4, true},    Place{7, 17, false},  Place{-7, 17, true},
                                          Place{14, -16, false}, Place{-14, -16, true}};

class Names {
 public:
  explicit Names(const Chart& chart) : chart_(chart) {
    for (const Dot& dot : chart.dots) {
      for (std::size_t at = 0; at < kWidths_px.size(); ++at) taken_[at].push_back(dot_box(dot, at));
    }
  }

  std::string draw(const Dot& dot) {
    if (dot.name.empty()) return "";
    for (const Place& place : kPlaces) {
      if (!is_free(dot, place)) continue;
      for (std::size_t at = 0; at < kWidths_px.size(); ++at) taken_[at].push_back(name_box(dot, place, at));
      return "<text class=\"name" + std::string(place.before ? " before" : "") + "\"" +
             attribute("x", percent(chart_.x.position(dot.x))) + attribute("y", percent(1 - chart_.y.position(dot.y))) +
             attribute("dx", px(place.dx)) + attribute("dy", px(place.dy)) + ">" + escaped(dot.name) + "</text>";
    }
    return "";
  }

 private:
  double width(std::size_t at) const { return kWidths_px[at] - chart_.left_px - kRight_px; }
  double x(const Dot& dot, std::size_t at) const { return width(at) * chart_.x.position(dot.x); }
  double y(const Dot& dot) const { return chart_.height_px * (1 - chart_.y.position(dot.y)); }
  Box dot_box(const Dot& dot, std::size_t at) const {
    constexpr double kRadius = 5;
    return {x(dot, at) - kRadius, x(dot, at) + kRadius, y(dot) - kRadius, y(dot) + kRadius};
  }
  Box name_box(const Dot& dot, const Place& place, std::size_t at) const {
    const double length = kLetter_px * static_cast<double>(display_width(dot.name));
    const double edge = x(dot, at) + place.dx;
    const double bottom = y(dot) + place.dy;
    return {place.before ? edge - length : edge, place.before ? edge : edge + length, bottom - 11, bottom + 3};
  }
  bool is_free(const Dot& dot, const Place& place) const {
    for (std::size_t at = 0; at < kWidths_px.size(); ++at) {
      const Box box = name_box(dot, place, at);
      if (box.left < 2 || box.right > width(at) - 2 || box.top < 0 || box.bottom > chart_.height_px) return false;
      if (std::any_of(taken_[at].begin(), taken_[at].end(), [&](const Box& one) { return one.meets(box); }))
        return false;
    }
    return true;
  }

  const Chart& chart_;
  std::array<std::vector<Box>, kWidths_px.size()> taken_;
};

std::string dots(const Chart& chart) {
  std::string svg;
  Names names(chart);
  std::string texts;
  for (auto dot = chart.dots.rbegin(); dot != chart.dots.rend(); ++dot) {
    svg += "<circle class=\"dot " + dot->classes + "\"" + attribute("cx", percent(chart.x.position(dot->x))) +
           attribute("cy", percent(1 - chart.y.position(dot->y))) +
           attribute("r", dot->classes.starts_with("chosen") ? "6" : "4") + ">" + titled(dot->title) + "</circle>";
  }
  for (const Dot& dot : chart.dots) texts += names.draw(dot);
  return svg + texts;
}

double plot_height_px(const Chart& chart) {
  return kTop_px + chart.height_px + kBelow_px;
}

std::string plot_at(const Chart& chart, double x_px, double y_px) {
  // As an attribute and as a style: browsers know the one or the other.
  const std::string width = "calc(100% - " + px(chart.left_px + kRight_px) + "px)";
  return "<svg class=\"plot\" role=\"img\" width=\"100%\"" + attribute("x", px(x_px)) + attribute("y", px(y_px)) +
         attribute("height", px(plot_height_px(chart))) + attribute("aria-label", escaped(chart.title)) + ">" +
         "<svg overflow=\"visible\"" + attribute("width", width) + attribute("x", px(chart.left_px)) +
         attribute("y", px(kTop_px)) + attribute("height", px(chart.height_px)) + attribute("style", "width:" + width) +
         ">" + (chart.rows.empty() ? value_axis(chart) : row_names(chart)) + across_axis(chart) +
         "<rect class=\"frame\" width=\"100%\" height=\"100%\"/>" + cells(chart) + stretched(chart) + marks(chart) +
         row_ends(chart) + dots(chart) + "</svg></svg>\n";
}

// --- A document

constexpr std::size_t kNoteColumns = 56;    // of a line that fits a narrow picture
constexpr std::size_t kLegendColumns = 46;  // beside its sign

// Words longer than a line are broken.
std::vector<std::string> lines_of(const std::string& text, std::size_t columns) {
  std::vector<std::string> lines;
  std::string line;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    std::string word = text.substr(begin, end - begin);
    if (!line.empty() && display_width(line) + 1 + display_width(word) > columns)
      lines.push_back(std::exchange(line, ""));
    for (; display_width(word) > columns; word.erase(0, lines.back().size())) {
      lines.push_back(first_columns(word, columns));
    }
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

std::string sign_of(const LegendEntry& entry, double x_px, double y_px) {
  switch (entry.sign) {
    case Sign::kDot:
      return "<circle class=\"dot " + entry.classes + "\" r=\"4\"" + attribute("cx", px(x_px + 8)) +
             attribute("cy", px(y_px)) + "/>\n";
    case Sign::kArea:
      return "<rect class=\"stack " + entry.classes + "\" width=\"18\" height=\"10\"" + attribute("x", px(x_px)) +
             attribute("y", px(y_px - 5)) + "/>\n";
    case Sign::kLine:
      return "<path class=\"key line " + entry.classes + "\"" +
             attribute("d", "M" + px(x_px) + " " + px(y_px) + "h18") + "/>\n";
  }
  return "";
}

class Document {
 public:
  void text(const std::string& text, const char* classes, double x_px = kMargin_px) {
    y_px_ += kLine_px;
    body_ += "<text" + attribute("class", classes) + attribute("x", px(x_px)) + attribute("y", px(y_px_)) + ">" +
             escaped(text) + "</text>\n";
  }
  void gap(double height_px) { y_px_ += height_px; }
  void add(const Panel& panel) {
    gap(10);
    for (const std::string& line : lines_of(panel.chart.title, kNoteColumns)) text(line, "heading");
    gap(4);
    body_ += plot_at(panel.chart, 0, y_px_);
    y_px_ += plot_height_px(panel.chart);
    if (!panel.x_title.empty()) text(panel.x_title, "note", panel.chart.left_px);
    for (const LegendEntry& entry : panel.legend) {
      text(fit(entry.text, kLegendColumns), "note", panel.chart.left_px + 24);
      body_ += sign_of(entry, panel.chart.left_px, y_px_ - 4);
    }
  }
  std::string done() {
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100%\"" + attribute("height", px(y_px_ + 14)) +
           ">\n<style>" + kStyle + kDocumentStyle +
           "</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n" + body_ + "</svg>\n";
  }

 private:
  static constexpr double kMargin_px = 14;
  static constexpr const char* kDocumentStyle =
      ".back{fill:var(--back)}text{font:12px system-ui,sans-serif;fill:var(--text)}\n"
      ".title{font-size:15px;font-weight:bold}.heading{font-weight:bold}.note{fill:var(--weak)}.key{stroke-width:3}\n";
  double y_px_ = 8;
  std::string body_;
};

}  // namespace

std::string plot(const Chart& chart) {
  return plot_at(chart, 0, 0);
}

std::string document(const std::string& title, const std::string& note, const std::vector<Panel>& panels) {
  constexpr std::size_t kTitleColumns = 46;
  Document document;
  for (const std::string& line : lines_of(title, kTitleColumns)) document.text(line, "title");
  for (const std::string& line : lines_of(note, kNoteColumns)) document.text(line, "note");
  for (const Panel& panel : panels) document.add(panel);
  return document.done();
}

double cell_opacity(double strength) {
  constexpr double kLeast = 0.1;  // so that it is seen that something is there
  return kLeast + (1 - kLeast) * std::clamp(strength, 0.0, 1.0);
}

std::string colour_class(std::size_t place) {
  return "c" + std::to_string(place % kColours + 1);
}

}  // namespace elastictrain::cli::chart

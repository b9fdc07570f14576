// Purpose: draws charts: curves with bands, stacked areas, points with names, rows of cells, marks over time. One unit
// for the page of a report and for the pictures of `plan` and `simulate`. Pure.
//
// A chart stretches to the width that it gets; its letters and lines keep their size, so it can be read on a phone.
// Colours are classes, which kStyle names for light, dark and paper.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/chart/axis.h"

namespace elastictrain::cli::chart {

struct CurvePoint {
  double at = 0;
  double value = 0;
  double low = 0;  // of the band
  double high = 0;
};
struct Curve {
  std::string classes;                          // "c1" to "c10", "rest"
  std::vector<std::vector<CurvePoint>> pieces;  // a gap lies between two
  bool steps = false;                           // a value stays until the next point
  bool line = true;
  bool band = false;
};
struct Dot {
  double x = 0;
  double y = 0;
  std::string classes;  // "chosen", "front", "beaten"; and "hollow"
  std::string name;     // drawn beside it where there is room; names of earlier dots have it first
  std::string title;
};
struct Mark {
  double at = 0;
  std::string classes;  // "loss", "slow", "other"
  std::string title;
};
struct Cell {
  std::size_t row = 0;
  double from = 0;
  double until = 0;
  double strength = 0;  // 0 to 1
  std::string title;
};
struct RowEnd {
  std::size_t row = 0;
  double at = 0;
  bool failed = false;
  std::string title;
};

struct Chart {
  std::string title;
  Axis x;
  Axis y;
  std::vector<std::string> rows;  // names; with rows the chart has no axis of values
  double height_px = 150;
  double left_px = 56;       // for the labels of the values or rows
  bool joins_front = false;  // a line through the dots that are not beaten
  std::vector<Curve> curves;
  std::vector<Dot> dots;
  std::vector<Mark> marks;
  std::vector<Cell> cells;
  std::vector<RowEnd> row_ends;
};

// An element <svg> with labels, without title and legend. It refers to kStyle.
std::string plot(const Chart& chart);

enum class Sign : std::uint8_t { kLine, kDot, kArea };
struct LegendEntry {
  std::string classes;
  Sign sign = Sign::kLine;
  std::string text;
};
struct Panel {
  Chart chart;
  std::string x_title;  // below the axis
  std::vector<LegendEntry> legend;
};
// A whole SVG document: `title` and `note` are any text, one panel below the other.
std::string document(const std::string& title, const std::string& note, const std::vector<Panel>& panels);

// Of a cell of this strength.
double cell_opacity(double strength);

// The names of ten colours and that of what has none.
std::string colour_class(std::size_t place);
inline constexpr std::size_t kColours = 10;

}  // namespace elastictrain::cli::chart

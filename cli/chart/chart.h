// Purpose: charts as SVG: their style sheet, the escaping of texts, and the drawing of curves, areas, points and
// cells. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/chart/axis.h"

// The style sheet of charts. Colours are named once for light, dark and paper.

namespace elastictrain::cli::chart {

inline constexpr const char* kStyle = R"css(
:root{color-scheme:light dark;--back:#fff;--text:#1b1f24;--weak:#5b6470;--edge:#d5dae1;--loss:#c02f2f;--slow:#a86200;
--other:#5b6470;--heat:#c2410c;--c1:#1d5fbf;--c2:#c02f2f;--c3:#2c8a57;--c4:#a86200;--c5:#7d4bb5;--c6:#00798c;--c7:#8d5a2b;
--c8:#b8417a;--c9:#4d6a88;--c10:#5a8a00;--rest:#8a94a1}
@media (prefers-color-scheme:dark){:root{--back:#14171b;--text:#e5e9ee;--weak:#9aa4b1;--edge:#363d47;--loss:#f37a7a;
--slow:#e0a04a;--other:#9aa4b1;--heat:#fb923c;--c1:#72a9f5;--c2:#f37a7a;--c3:#63c08d;--c4:#e0a04a;--c5:#b795e6;
--c6:#4fc3d5;--c7:#c9976a;--c8:#ee8fbb;--c9:#8fb0d3;--c10:#a5d14f;--rest:#8a94a1}}
@media print{:root{color-scheme:light;--back:#fff;--text:#000;--weak:#444;--edge:#bbb;--loss:#c02f2f;--slow:#a86200;
--other:#444;--heat:#c2410c;--c1:#1d5fbf;--c2:#c02f2f;--c3:#2c8a57;--c4:#a86200;--c5:#7d4bb5;--c6:#00798c;--c7:#8d5a2b;
--c8:#b8417a;--c9:#4d6a88;--c10:#5a8a00;--rest:#8a94a1}}
.plot{display:block;overflow:visible;font:12px system-ui,sans-serif}
.plot text{fill:var(--weak)}
.plot .y{text-anchor:end}.plot .x{text-anchor:middle}.plot .x.first{text-anchor:start}.plot .x.last{text-anchor:end}
.plot .name{fill:var(--text);paint-order:stroke;stroke:var(--back);stroke-width:3px;stroke-linejoin:round}
.plot .name.before{text-anchor:end}
.frame{fill:none;stroke:var(--edge)}
.grid{stroke:var(--edge);stroke-width:1}
.line{fill:none;stroke-width:1.8;vector-effect:non-scaling-stroke;stroke-linejoin:round}
.band{stroke:none;fill-opacity:.18}.stack{stroke:none}
.mark{stroke:var(--other);stroke-width:1.4;stroke-dasharray:3 3}
.mark.loss{stroke:var(--loss);stroke-dasharray:none}.mark.slow{stroke:var(--slow)}
.cell{fill:var(--heat)}.end{stroke:var(--text);stroke-width:1.8;fill:none}.end.failed{stroke:var(--loss)}
.dot{stroke-width:1.6}.chosen{stroke:var(--c2);fill:var(--c2)}.front{stroke:var(--c1);fill:var(--c1)}
.beaten{stroke:var(--rest);fill:var(--rest)}.dot.hollow{fill:var(--back)}
.join{fill:none;stroke:var(--c1);stroke-width:1.2;vector-effect:non-scaling-stroke}
.c1{--it:var(--c1)}.c2{--it:var(--c2)}.c3{--it:var(--c3)}.c4{--it:var(--c4)}.c5{--it:var(--c5)}.c6{--it:var(--c6)}
.c7{--it:var(--c7)}.c8{--it:var(--c8)}.c9{--it:var(--c9)}.c10{--it:var(--c10)}.rest{--it:var(--rest)}
.line{stroke:var(--it)}.band,.stack{fill:var(--it)}
.c6.line,.c8.line,.c10.line{stroke-dasharray:7 3}.c7.line,.c9.line{stroke-dasharray:2 2.5}
@media (max-width:600px){.plot .odd{display:none}}
)css";

// Text and numbers inside SVG and HTML. What programs, hosts and files say is escaped here, so that nothing of
// it becomes markup. Pure.

std::string escaped(const std::string& text);
std::string number_text(double value, int digits);  // for coordinates; without trailing zeros

// Draws charts: curves with bands, stacked areas, points with names, rows of cells, marks over time. One unit
// for the page of a report and for the pictures of `plan` and `simulate`. Pure.
//
// A chart stretches to the width that it gets; its letters and lines keep their size, so it can be read on a phone.
// Colours are classes, which kStyle names for light, dark and paper.

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

// Purpose: pieces of an HTML page: escaped text, numbers, tables, curves over time. Pure. Text of runs is escaped here,
// so that nothing of a program or host becomes markup.
//
// Curves are drawn in a box of 1000 by 100 that stretches to the width of the page; their labels are text beside it, so
// they stay readable on a phone.
#pragma once

#include <string>
#include <vector>

namespace elastictrain::cli::run_report {

std::string escaped(const std::string& text);
std::string number_text(double value, int digits);  // for coordinates; without trailing zeros

// <TAG class="…">content</TAG>; the content is markup.
std::string element(const std::string& tag, const std::string& classes, const std::string& content);

struct TableColumn {
  std::string title;
  bool is_number = false;
};
// Cells are text. `left_out`: rows between the first and the last ones that are not here.
std::string table(const std::vector<TableColumn>& columns, const std::vector<std::vector<std::string>>& rows,
                  std::uint64_t left_out = 0);

struct CurvePoint {
  double at = 0;
  double value = 0;
  double low = 0;
  double high = 0;
};
struct Marker {
  double at = 0;
  std::string classes;
  std::string title;
};
struct Curve {
  std::string title;
  std::string unit;
  double end = 1;                               // of the axis of time, in seconds
  std::vector<std::vector<CurvePoint>> pieces;  // a gap lies between two
  bool steps = false;                           // the value stays until the next point
  bool from_zero = true;
  std::vector<Marker> markers;
};
std::string draw(const Curve& curve);

// Round values from 0 to `end` seconds, at most about `most`.
std::vector<double> time_ticks(double end, int most);
std::vector<double> value_ticks(double low, double high, int most);

}  // namespace elastictrain::cli::run_report

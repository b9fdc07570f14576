// Purpose: prices of workers, and the value of finishing a job after a given time. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "heuristics/policy/view.h"

// The price of workers on the hosts of a view, by host class.
//
// Pure. Prices per second; per hour if the name says so.

namespace elastictrain::heuristics {

class Prices {
 public:
  // A job's slots are those of its own workers and the free ones. If no host has a price, each worker costs
  // `default_per_hour`. Hosts that are leaving take no further workers.
  Prices(const std::vector<HostView>& hosts, const JobView& job, double default_per_hour);

  // Total price of that many workers on the cheapest slots.
  double per_s(std::uint32_t workers) const;

 private:
  std::vector<std::pair<double, std::uint32_t>> slots_;  // (price per second of a worker, how many), cheapest first
  double beyond_per_s_ = 0;                              // of workers without a known slot
};

// The value of finishing a job after a given time (Or et al. 2020, algorithms A3).
//
// Pure. Utilities and costs in the unit of the prices (dollars or any other), times in seconds.

class Utility {
 public:
  // U(t) = y - (y / x) t.
  static Utility linear(double y, double x_s);
  // Straight lines between (seconds, value) points. (0, first value) is inserted before a first point that is not at 0,
  // and (expected_s, 0) after the last point if it is later. Beyond the end the last line continues, also below zero.
  static Utility piecewise(std::vector<std::pair<double, double>> points, double expected_s);
  // Straight lines between (seconds, value) points; the first value before them, the last one after them. At least one
  // point, in the order of their seconds.
  static Utility table(std::vector<std::pair<double, double>> points);

  double operator()(double seconds) const;

 private:
  std::vector<std::pair<double, double>> points_;  // (seconds, value), at least two, rising seconds
};

// "linear:Y,X", "step:V1:E1,V2:E2,…" (values V at seconds E), or "table:E1:V1,E2:V2,…". `problem` describes the error.
struct UtilityText {
  enum class Kind { kLinear, kStep, kTable };
  Kind kind = Kind::kLinear;
  double y = 0;
  double x_s = 1;
  std::vector<std::pair<double, double>> points;  // (seconds, value)
  std::string problem;                            // empty: none
  Utility utility(double expected_s) const;
};
UtilityText parse_utility(const std::string& text);
std::string problem_of_utility(const std::string& text);
inline constexpr const char* kUtilityTable = "table";

// That of the view, if a program says it, else that of the settings.
Utility utility_of(const JobView& job, const UtilityText& otherwise, double expected_s);

// What is wrong with the points of a table, by the number of the point, from 1; empty: nothing.
std::string problem_of_table(const std::vector<std::pair<double, double>>& points);

}  // namespace elastictrain::heuristics

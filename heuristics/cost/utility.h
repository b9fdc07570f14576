// Purpose: what finishing a job after a given time is worth (Or et al. 2020, algorithms A3).
//
// Pure. Utilities and costs in the unit of the prices (dollars, or whatever the user means), times in seconds.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace elastictrain::heuristics {

class Utility {
 public:
  // U(t) = y - (y / x) t.
  static Utility linear(double y, double x_s);
  // Straight lines between (seconds, value) points. (0, first value) is put before a first point that is not at 0;
  // (expected_s, 0) behind the last if it is later; beyond the end the last line goes on, also below zero.
  static Utility piecewise(std::vector<std::pair<double, double>> points, double expected_s);

  double operator()(double seconds) const;

 private:
  std::vector<std::pair<double, double>> points_;  // (seconds, value), at least two, rising seconds
};

// "linear:Y,X" or "step:V1:E1,V2:E2,…" (values V at seconds E). `problem` says what is wrong.
struct UtilityText {
  bool linear = true;
  double y = 0;
  double x_s = 1;
  std::vector<std::pair<double, double>> points;  // (seconds, value)
  std::string problem;                            // empty: none
  Utility utility(double expected_s) const;
};
UtilityText parse_utility(const std::string& text);

}  // namespace elastictrain::heuristics

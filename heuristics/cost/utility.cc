#include "heuristics/cost/utility.h"

#include <algorithm>
#include <cstdlib>

namespace elastictrain::heuristics {
namespace {

// The numbers between `separator`; empty if one is not a number.
std::vector<double> numbers(const std::string& text, char separator) {
  std::vector<double> all;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    char* rest = nullptr;
    const double value = std::strtod(word.c_str(), &rest);
    if (word.empty() || *rest != '\0' || !(value > -1e300 && value < 1e300)) return {};
    all.push_back(value);
    begin = end + 1;
  }
  return all;
}

std::string parse_points(const std::string& text, std::vector<std::pair<double, double>>& points) {
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto pair = numbers(text.substr(begin, end - begin), ':');
    if (pair.size() != 2) return "a step is VALUE:SECONDS, not \"" + text.substr(begin, end - begin) + "\"";
    if (pair[1] < 0 || (!points.empty() && pair[1] <= points.back().first)) return "the seconds of steps must rise";
    if (!points.empty() && pair[0] > points.back().second) return "the values of steps must not rise";
    points.emplace_back(pair[1], pair[0]);
    begin = end + 1;
  }
  return "";
}

}  // namespace

Utility Utility::linear(double y, double x_s) {
  Utility utility;
  utility.points_ = {{0, y}, {x_s, 0}};
  return utility;
}

Utility Utility::piecewise(std::vector<std::pair<double, double>> points, double expected_s) {
  if (points.empty()) points.emplace_back(0, 0);
  if (points.front().first > 0) points.insert(points.begin(), {0, points.front().second});
  if (expected_s > points.back().first) points.emplace_back(expected_s, 0);
  if (points.size() == 1) points.emplace_back(points.back().first + 1, points.back().second);
  Utility utility;
  utility.points_ = std::move(points);
  return utility;
}

double Utility::operator()(double seconds) const {
  std::size_t right = 1;
  while (right + 1 < points_.size() && points_[right].first < seconds) ++right;
  const auto& [from_s, from] = points_[right - 1];
  const auto& [to_s, to] = points_[right];
  return from + (to - from) * (seconds - from_s) / (to_s - from_s);
}

Utility UtilityText::utility(double expected_s) const {
  return linear ? Utility::linear(y, x_s) : Utility::piecewise(points, expected_s);
}

UtilityText parse_utility(const std::string& text) {
  UtilityText parsed;
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, std::min(colon, text.size()));
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (kind == "linear") {
    const auto values = numbers(rest, ',');
    if (values.size() != 2 || values[0] < 0 || values[1] <= 0) {
      parsed.problem = "a linear utility is linear:VALUE,SECONDS with a value from 0 and seconds above 0";
    } else {
      parsed.y = values[0];
      parsed.x_s = values[1];
    }
  } else if (kind == "step") {
    parsed.linear = false;
    parsed.problem = parse_points(rest, parsed.points);
  } else {
    parsed.problem = "a utility is linear:VALUE,SECONDS or step:VALUE:SECONDS,..., not \"" + text + "\"";
  }
  return parsed;
}

}  // namespace elastictrain::heuristics

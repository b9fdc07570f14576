#include "heuristics/cost/cost.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace elastictrain::heuristics {
namespace {

constexpr double kHour = 3600;

}  // namespace

Prices::Prices(const std::vector<HostView>& hosts, const JobView& job, double default_per_hour)
    : beyond_per_s_(default_per_hour / kHour) {
  const bool priced =
      std::any_of(hosts.begin(), hosts.end(), [](const HostView& host) { return host.price_per_worker_hour > 0; });
  if (!priced) return;
  std::vector<std::uint32_t> own(hosts.size());
  for (const auto& member : job.members) {
    if (member.host < own.size()) ++own[member.host];
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::uint32_t count = own[i] + (hosts[i].leaving ? 0 : hosts[i].free_slots);
    if (count > 0) slots_.emplace_back(hosts[i].price_per_worker_hour / kHour, count);
  }
  std::sort(slots_.begin(), slots_.end());
  if (!slots_.empty()) beyond_per_s_ = slots_.back().first;
}

double Prices::per_s(std::uint32_t workers) const {
  double sum = 0;
  for (const auto& [price, count] : slots_) {
    const std::uint32_t taken = std::min(workers, count);
    sum += taken * price;
    workers -= taken;
  }
  return sum + workers * beyond_per_s_;
}

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

std::string parse_steps(const std::string& text, std::vector<std::pair<double, double>>& points) {
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

std::string parse_table(const std::string& text, std::vector<std::pair<double, double>>& points) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const auto pair = numbers(text.substr(begin, end - begin), ':');
    if (pair.size() != 2) return "a point is SECONDS:VALUE, not \"" + text.substr(begin, end - begin) + "\"";
    points.emplace_back(pair[0], pair[1]);
    begin = end + 1;
  }
  return problem_of_table(points);
}

}  // namespace

std::string problem_of_table(const std::vector<std::pair<double, double>>& points) {
  static constexpr double kLargest = 1e300;
  if (points.empty()) return "a table needs at least one point of seconds and value";
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto& [seconds, value] = points[i];
    const std::string point = "point " + std::to_string(i + 1);
    if (!(seconds >= 0 && seconds < kLargest)) return point + ": its seconds must be 0 or more";
    if (!(std::abs(value) < kLargest)) return point + ": its value must be a number";
    if (i > 0 && seconds <= points[i - 1].first)
      return point + ": its seconds must be more than those of the one before";
  }
  return "";
}

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

Utility Utility::table(std::vector<std::pair<double, double>> points) {
  const double before_s = points.front().first - 1, after_s = points.back().first + 1;
  Utility utility;
  utility.points_.emplace_back(before_s, points.front().second);
  utility.points_.insert(utility.points_.end(), points.begin(), points.end());
  utility.points_.emplace_back(after_s, points.back().second);
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
  if (kind == Kind::kTable) return Utility::table(points);
  return kind == Kind::kLinear ? Utility::linear(y, x_s) : Utility::piecewise(points, expected_s);
}

Utility utility_of(const JobView& job, const UtilityText& otherwise, double expected_s) {
  if (job.utility.empty()) return otherwise.utility(expected_s);
  std::vector<std::pair<double, double>> points;
  for (const auto& point : job.utility) points.emplace_back(point.seconds, point.value);
  return problem_of_table(points).empty() ? Utility::table(std::move(points)) : otherwise.utility(expected_s);
}

std::string problem_of_utility(const std::string& text) {
  return parse_utility(text).problem;
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
    parsed.kind = UtilityText::Kind::kStep;
    parsed.problem = parse_steps(rest, parsed.points);
  } else if (kind == kUtilityTable) {
    parsed.kind = UtilityText::Kind::kTable;
    parsed.problem = parse_table(rest, parsed.points);
  } else {
    parsed.problem =
        "a utility is linear:VALUE,SECONDS, step:VALUE:SECONDS,... or table:SECONDS:VALUE,..., not \"" + text + "\"";
  }
  return parsed;
}

}  // namespace elastictrain::heuristics

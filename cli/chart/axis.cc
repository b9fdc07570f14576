#include "cli/chart/axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>

#include "cli/output/figures.h"

namespace elastictrain::cli::chart {
namespace {

constexpr double kRoom = 0.05;           // of the length of an axis
constexpr double kLogarithmicFrom = 10;  // the highest value divided by the lowest one
constexpr double kMostPlain = 1e15;      // numbers beyond have an exponent
constexpr double kLeastPlain = 1e-5;
constexpr double kMinute_s = 60, kHour_s = 3600, kDay_s = 86'400;

// Whole numbers of these are round durations. Below and above, decades are.
constexpr std::array kRoundDurations_s = {1.0,         2.0,          5.0,           10.0,          20.0,
                                          30.0,        kMinute_s,    2 * kMinute_s, 5 * kMinute_s, 10 * kMinute_s,
                                          1200.0,      1800.0,       kHour_s,       2 * kHour_s,   3 * kHour_s,
                                          6 * kHour_s, 12 * kHour_s, kDay_s};
constexpr std::array kDurationDecades_s = {1.0, 10.0, kMinute_s, 10 * kMinute_s, kHour_s, 10 * kHour_s, kDay_s};

// The smallest of 1, 2, 5 (or 2.5) times a power of ten that is at least `least`.
double round_step(double least, bool halves) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, halves ? 2.5 : 5.0, 5.0}) {
    if (power * factor >= least * (1 - 1e-9)) return power * factor;
  }
  return power * 10;
}

double duration_step(double least) {
  if (least < kRoundDurations_s.front()) return round_step(least, false);
  for (const double step : kRoundDurations_s) {
    if (step >= least * (1 - 1e-9)) return step;
  }
  return kDay_s * round_step(least / kDay_s, false);
}

std::string print(const char* format, int digits, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, digits, value);
  return text.data();
}

// "2e-05" as "2e-5".
std::string with_exponent(double value, int digits) {
  std::string text = print("%.*g", digits, value);
  const std::size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text;
  const std::size_t zeros = text.find_first_not_of('0', exponent + 2);
  return text.substr(0, exponent + (text[exponent + 1] == '-' ? 2 : 1)) + text.substr(zeros);
}

// Digits behind the point that multiples of `step` need.
int digits_of(double step) {
  int digits = 0;
  for (double scaled = step; digits < 12 && std::abs(scaled - std::round(scaled)) > 1e-6 * scaled; ++digits) {
    scaled *= 10;
  }
  return digits;
}

std::string number_label(double value, double step, double largest) {
  if (value == 0) return "0";
  if (largest >= kMostPlain || largest < kLeastPlain) {
    return with_exponent(value, 1 + std::max(0, static_cast<int>(std::floor(std::log10(largest / step)))));
  }
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  std::size_t unit = 0;
  double divisor = 1;
  for (; largest / divisor >= (unit == 0 ? 10'000 : 1'000) && unit + 1 < std::size(kUnits); ++unit) divisor *= 1000;
  return print("%.*f", digits_of(step / divisor), value / divisor) + kUnits[unit];
}

}  // namespace

Axis::Axis(const std::vector<double>& values, Quantity quantity, Span span, Scale scale) : quantity_(quantity) {
  bool any = false;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low_ = any ? std::min(low_, value) : value;
    high_ = any ? std::max(high_, value) : value;
    any = true;
  }
  if (!any) return;
  const bool near = low_ > 0 && high_ < 2 * low_;
  const bool from_zero = span == Span::kFromZero || (span == Span::kHonest && near);
  if (from_zero) low_ = std::min(low_, 0.0);
  logarithmic_ = scale == Scale::kAuto && !from_zero && low_ > 0 && high_ > kLogarithmicFrom * low_;
  if (span != Span::kExact) add_room(!from_zero || low_ < 0);
  // Rounding makes equal values differ a little.
  if (high_ - low_ > 1e-9 * std::max(std::abs(low_), std::abs(high_))) return;
  const double room = std::max(std::abs(low_) / 2, 1e-9);
  if (!from_zero) low_ -= room;
  high_ += room;
}

void Axis::add_room(bool below) {
  if (logarithmic_) {
    const double factor = std::pow(high_ / low_, kRoom);
    low_ /= factor;
    high_ *= factor;
    return;
  }
  const double room = kRoom * (high_ - low_);
  if (below) low_ -= room;
  high_ += room;
}

double Axis::position(double value) const {
  if (logarithmic_ && value <= low_) return 0;
  const double part = logarithmic_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return std::isfinite(part) ? std::clamp(part, 0.0, 1.0) : 0;
}

std::vector<double> Axis::linear_ticks(int most) const {
  const double least = (high_ - low_) / most;
  if (!std::isfinite(least)) return {};
  const double step = quantity_ == Quantity::kSeconds ? duration_step(least)
                      : quantity_ == Quantity::kWhole ? std::max(1.0, round_step(least, false))
                                                      : round_step(least, true);
  std::vector<double> ticks;
  const double first = std::ceil(low_ / step - 1e-9);
  for (int i = 0; i <= most && (first + i) * step <= high_ + 1e-9 * step; ++i) ticks.push_back((first + i) * step);
  return ticks;
}

// The finest of several series that has at most `most` values: decades with 2 and 5, decades, each second one, …
std::vector<double> Axis::logarithmic_ticks(int most) const {
  const auto inside = [this](std::vector<double> values) {
    std::erase_if(values, [this](double value) { return value < low_ * (1 - 1e-9) || value > high_ * (1 + 1e-9); });
    return values;
  };
  std::vector<double> decades;
  std::vector<double> finer;
  const bool seconds = quantity_ == Quantity::kSeconds;
  for (int power = static_cast<int>(std::floor(std::log10(low_))); power <= std::ceil(std::log10(high_)); ++power) {
    const double decade = std::pow(10, power);
    if (seconds && power >= 0) continue;
    for (const double factor : {1.0, 2.0, 5.0}) finer.push_back(factor * decade);
    decades.push_back(decade);
  }
  if (seconds) {
    decades.insert(decades.end(), kDurationDecades_s.begin(), kDurationDecades_s.end());
    finer.insert(finer.end(), kRoundDurations_s.begin(), kRoundDurations_s.end());
    for (double days = 10; days * kDay_s <= high_; days *= 10) decades.push_back(days * kDay_s);
    for (double days = 1; days * kDay_s <= high_; days *= 10) {
      for (const double factor : {2.0, 5.0, 10.0}) finer.push_back(factor * days * kDay_s);
    }
  }
  std::vector<double> ticks = inside(finer);
  if (ticks.size() <= static_cast<std::size_t>(most)) return ticks;
  ticks = inside(decades);
  while (ticks.size() > static_cast<std::size_t>(most)) {
    for (std::size_t i = 0; 2 * i < ticks.size(); ++i) ticks[i] = ticks[2 * i];
    ticks.resize((ticks.size() + 1) / 2);
  }
  return ticks;
}

std::string Axis::label(double value, double step) const {
  switch (quantity_) {
    case Quantity::kSeconds:
      return short_duration(value);
    case Quantity::kPercent:
      return number_label(100 * value, 100 * step, 100 * std::max(std::abs(low_), std::abs(high_))) + " %";
    default:
      return number_label(value, step, std::max(std::abs(low_), std::abs(high_)));
  }
}

std::vector<Tick> Axis::ticks(int most) const {
  std::vector<Tick> ticks;
  if (logarithmic_) {
    // Each label stands for itself: 0.01, 1, 100.
    for (const double value : logarithmic_ticks(most)) {
      ticks.push_back(
          {value, quantity_ == Quantity::kSeconds ? short_duration(value) : number_label(value, value, value)});
    }
    return ticks;
  }
  const std::vector<double> values = linear_ticks(most);
  const double step = values.size() > 1 ? values[1] - values[0] : 1;
  for (const double value : values) ticks.push_back({value, label(value, step)});
  return ticks;
}

std::string short_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds == 0) return "0";
  if (seconds < 1) return with_exponent(1000 * seconds, 6) + " ms";
  if (seconds < kMinute_s) return with_exponent(seconds, 6) + " s";
  std::string text = format_duration(seconds);
  const std::size_t gap = text.find(' ');
  if (gap != std::string::npos && text.compare(gap + 1, 2, "00") == 0) text.resize(gap);
  return text;
}

}  // namespace elastictrain::cli::chart

#include "heuristics/duration_text.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace elastictrain::heuristics {
namespace {

std::string padded(long long large, const char* large_unit, long long small, const char* small_unit) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%lld%s %02lld%s", large, large_unit, small, small_unit);
  return text.data();
}

std::string one_digit(double value, const char* unit) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.1f %s", value, unit);
  return text.data();
}

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 0.9995) return one_digit(seconds * 1000, "ms");
  if (seconds < 59.95) return one_digit(seconds, "s");
  const long long whole = std::llround(seconds);
  if (whole < 3600) return padded(whole / 60, "m", whole % 60, "s");
  if (whole < 86'400) return padded(whole / 3600, "h", whole / 60 % 60, "m");
  return padded(whole / 86'400, "d", whole / 3600 % 24, "h");
}

}  // namespace elastictrain::heuristics

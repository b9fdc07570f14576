#include "cli/output/figures.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "supervisor/protocol/display_text.h"

namespace elastictrain::cli {
namespace {

// What no run reaches, but a damaged journal or a hostile status may hold, is written with its exponent.
constexpr double kMostPlain = 1e15;

template <class... Args>
std::string print(const char* format, Args... args) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, args...);
  return buffer.data();
}

}  // namespace

std::string format_count(double value) {
  if (!std::isfinite(value)) return "-";
  if (std::abs(value) >= kMostPlain) return print("%.3g", value);
  if (value < 999.5) return print("%.*f", value < 10 && value != std::floor(value) ? 1 : 0, value);
  constexpr const char* kUnits[] = {"k", "M", "G", "T"};
  std::size_t unit = 0;
  value /= 1000;
  for (; value >= 999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return print("%.*f%s", value < 10 ? 2 : value < 100 ? 1 : 0, value, kUnits[unit]);
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return print("%llu B", static_cast<unsigned long long>(bytes));
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1023.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return print("%.*f %s", value < 10 ? 1 : 0, value, kUnits[unit]);
}

std::string format_duration(double seconds) {
  return protocol::duration_text(seconds);
}

std::string format_number(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  return std::abs(value) >= kMostPlain ? print("%.3g", value) : print("%.*f", digits, value);
}

std::string format_loss(double value) {
  return std::isfinite(value) ? print("%.4g", value) : "nan";
}

}  // namespace elastictrain::cli

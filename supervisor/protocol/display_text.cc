#include "supervisor/protocol/display_text.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace elastictrain::protocol {
namespace {

template <class... Args>
std::string print(const char* format, Args... args) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, args...);
  return buffer.data();
}

}  // namespace

std::string duration_text(double seconds) {
  constexpr double kMost = 1e12;  // 30,000 years
  if (!std::isfinite(seconds) || seconds < 0 || seconds > kMost) return "-";
  if (seconds < 0.9995) return print("%.1f ms", seconds * 1000);
  if (seconds < 59.95) return print("%.1f s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3600) return print("%lldm %02llds", whole / 60, whole % 60);
  if (whole < 86'400) return print("%lldh %02lldm", whole / 3600, whole / 60 % 60);
  return print("%lldd %02lldh", whole / 86'400, whole / 3600 % 24);
}

std::string duration_text(std::chrono::milliseconds duration) {
  return duration_text(std::chrono::duration<double>(duration).count());
}

}  // namespace elastictrain::protocol

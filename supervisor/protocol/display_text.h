// Purpose: counts, durations and signals as users read them. Pure.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

// A number with what it counts, as users read it: "1 worker", "3 workers", "2 processes". Pure.

namespace elastictrain::protocol {

// `several`: its plural; without it, `one` and an s.
inline std::string counted(std::uint64_t number, std::string_view one, std::string_view several = {}) {
  std::string text = std::to_string(number) + " ";
  if (number != 1 && !several.empty()) return text.append(several);
  return text.append(one).append(number == 1 ? "" : "s");
}

// A duration as users read it: 4.2 ms, 12.3 s, 2m 05s, 1h 02m, 3d 04h. Pure.

std::string duration_text(double seconds);  // "-" if it is negative or not a number
std::string duration_text(std::chrono::milliseconds duration);

// Signals as people know them. Pure.

// "signal 9 (SIGKILL)"; a real-time signal has its number only.
inline std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return "signal " + std::to_string(signal) + (name == nullptr ? "" : " (SIG" + std::string(name) + ")");
}

}  // namespace elastictrain::protocol

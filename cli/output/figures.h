// Purpose: numbers formatted for users: "12.3k", "1.5 GiB", "2m 05s". Pure.
#pragma once

#include <cstdint>
#include <string>

namespace elastictrain::cli {

std::string format_count(double value);               // 950, 12.3k, 4.56M
std::string format_bytes(std::uint64_t bytes);        // 512 B, 1.5 GiB
std::string format_duration(double seconds);          // 4.2 ms, 12.3 s, 2m 05s, 1h 02m
std::string format_number(double value, int digits);  // fixed point
// Exactly 0: the program reports none.
inline bool is_reported(double loss) {
  return loss != 0;
}
std::string format_loss(double value);  // four significant digits

}  // namespace elastictrain::cli

// Purpose: a duration as users read it: 4.2 ms, 12.3 s, 2m 05s, 1h 02m, 3d 04h. Pure.
#pragma once

#include <chrono>
#include <string>

namespace elastictrain::protocol {

std::string duration_text(double seconds);  // "-" if it is negative or not a number
std::string duration_text(std::chrono::milliseconds duration);

}  // namespace elastictrain::protocol

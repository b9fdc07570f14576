// Purpose: 16-bit floats to and from float: IEEE half precision and bfloat16. Rounds to the nearest, ties to even.
// Pure.
#pragma once

#include <cstdint>

namespace elastictrain::session {

float from_half(std::uint16_t bits);
std::uint16_t to_half(float value);
float from_bfloat(std::uint16_t bits);
std::uint16_t to_bfloat(float value);

}  // namespace elastictrain::session

// Purpose: 16-bit floats to and from float: IEEE half precision and bfloat16. Rounds to the nearest, ties to even.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace elastictrain::session {

float from_half(std::uint16_t bits);
std::uint16_t to_half(float value);
float from_bfloat(std::uint16_t bits);
std::uint16_t to_bfloat(float value);

// `is_half`: half precision, otherwise bfloat16.
void widen_floats(bool is_half, const std::uint16_t* from, float* into, std::size_t count);
void round_floats(bool is_half, const float* from, std::uint16_t* into, std::size_t count);

}  // namespace elastictrain::session

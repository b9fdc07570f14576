#include "train/session/half_floats.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace elastictrain::session {
namespace {

constexpr std::uint32_t kFloatInfinity = 0x7f800000;
constexpr std::uint32_t kFloatMagnitude = 0x7fffffff;
constexpr std::uint32_t kExponentShift = 112;        // between the biases of the two formats
constexpr std::uint32_t kHalfOverflow = 0x477ff000;  // 65520, the smallest value that rounds to infinity
constexpr std::uint32_t kHalfNormal = 0x38800000;    // 2^-14

}  // namespace

float from_half(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 31U;
  const std::uint32_t mantissa = bits & 0x3ffU;
  if (exponent == 31) return std::bit_cast<float>(sign | kFloatInfinity | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + kExponentShift) << 23 | mantissa << 13);
  const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  return sign == 0 ? magnitude : -magnitude;
}

std::uint16_t to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & kFloatMagnitude;
  if (magnitude > kFloatInfinity) return sign | 0x7e00;
  if (magnitude >= kHalfOverflow) return sign | 0x7c00;
  if (magnitude < kHalfNormal) {
    return sign | static_cast<std::uint16_t>(std::nearbyint(std::ldexp(std::fabs(value), 24)));
  }
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return sign | static_cast<std::uint16_t>((rounded - (kExponentShift << 23)) >> 13);
}

float from_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

std::uint16_t to_bfloat(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & kFloatMagnitude) > kFloatInfinity) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

void widen_floats(bool is_half, const std::uint16_t* from, float* into, std::size_t count) {
  std::transform(from, from + count, into, is_half ? from_half : from_bfloat);
}

void round_floats(bool is_half, const float* from, std::uint16_t* into, std::size_t count) {
  std::transform(from, from + count, into, is_half ? to_half : to_bfloat);
}

}  // namespace elastictrain::session

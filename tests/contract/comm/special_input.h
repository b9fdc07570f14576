// Purpose: input of an all-reduce that shows every change of a bit.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace elastictrain::comm::testing {

// Also values that arithmetic would change: a NaN with a payload, infinities, minus zero.
inline std::vector<float> input_of(std::uint32_t rank, std::size_t count) {
  std::vector<float> input(count);
  for (std::size_t i = 0; i < count; ++i) input[i] = static_cast<float>(i % 1009) * 0.37F - static_cast<float>(rank);
  constexpr std::uint32_t kSpecial[] = {0x7fc12345, 0x7f800000, 0xff800000, 0x80000000};
  for (std::size_t i = 0; i < count; i += 997) std::memcpy(&input[i], &kSpecial[i % 4], sizeof(float));
  return input;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace elastictrain::comm::testing

// Purpose: the FNV-1a hash of 64 bits: tells apart what nobody chooses so that it collides. The same in every process
// and version. Thread: any.
#pragma once

#include <cstdint>

namespace elastictrain::protocol {

// Of the bytes of a text or an array.
template <class Bytes>
constexpr std::uint64_t fnv1a(const Bytes& bytes) {
  std::uint64_t hash = 14695981039346656037u;
  for (const auto byte : bytes) hash = (hash ^ static_cast<std::uint8_t>(byte)) * 1099511628211u;
  return hash;
}

}  // namespace elastictrain::protocol

// Purpose: HMAC-SHA-256 (RFC 2104, FIPS 198-1) over OpenSSL's SHA-256. The low-level functions of OpenSSL are used
// because they can be linked into the worker library alone: programs that load it have an OpenSSL of their own.
// Thread: any. Failure: none.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>

namespace elastictrain::comm {

using Mac = std::array<std::byte, 32>;

// Of the parts one after the other. `key` has at most 64 bytes.
Mac keyed_hash(std::span<const std::byte> key, std::span<const std::span<const std::byte>> parts);
inline Mac keyed_hash(std::span<const std::byte> key, std::initializer_list<std::span<const std::byte>> parts) {
  return keyed_hash(key, std::span(parts.begin(), parts.size()));
}
bool same_mac(const Mac& a, const Mac& b);  // in constant time

}  // namespace elastictrain::comm

// Purpose: messages between a store and a worker that reads it. The handshake of the data plane comes first, with the
// store's own token as key, so that a store answers members of the run only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "train/comm/handshake.h"

namespace elastictrain::peers {

// After the challenge comes the proof, then this, protected as the level says (record_keys.h); the name follows.
struct Question {
  std::uint64_t version = 0;
  std::uint64_t name_bytes = 0;
  std::uint64_t data_bytes = 0;
};

struct Answer {
  std::uint64_t found = 0;
  std::uint64_t version = 0;
  std::uint64_t data_bytes = 0;  // bytes that follow, if this is the requested size
};

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

// No generation and no ranks: a token is one store's.
inline comm::Handshake store_handshake(protocol::Encryption encryption) {
  return {.purpose = comm::Purpose::kStore, .nonce = comm::make_nonce(), .encryption = encryption};
}

}  // namespace elastictrain::peers

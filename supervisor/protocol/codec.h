// Purpose: messages to bytes and back. A frame is a 4-byte little-endian length and a msgpack body; a body is the array
// [alternative, fields]. Decoding trusts no input: sizes are bounded before memory is allocated, every type and range
// is checked, and a malformed body is an Error, never an exception or a crash.
//
// Thread: pure functions. Errors: decode_body() only; encoding cannot fail.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "supervisor/protocol/result.h"

namespace elastictrain::protocol {

inline constexpr std::size_t kFrameHeaderBytes = 4;

inline std::size_t frame_body_bytes(const char* header) {
  std::size_t length = 0;
  for (int i = 0; i < 4; ++i) length |= static_cast<std::size_t>(static_cast<unsigned char>(header[i])) << (8 * i);
  return length;
}

// For the message types that codec.cc instantiates: Bootstrap, AgentUp and AgentDown (agent_messages.h),
// WorkerToAgent and WorkerDown (worker_messages.h), GuestUp and GuestDown (rendezvous_messages.h).
template <class Message>
std::string encode_frame(const Message& message);
template <class Message>
Result<Message> decode_body(std::string_view body);

}  // namespace elastictrain::protocol

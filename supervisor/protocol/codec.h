// Purpose: messages to frames and back, and a byte stream split into frames. Sizes are checked before memory is
// allocated.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "supervisor/protocol/result.h"

// Messages to bytes and back. A frame is a 4-byte little-endian length and a msgpack body; a body is the array
// [alternative, fields]. Decoding trusts no input: sizes are bounded before memory is allocated, every type and range
// is checked, and a malformed body is an Error, never an exception or a crash.
//
// Thread: pure functions. Errors: decode_body() only; encoding cannot fail.

namespace elastictrain::protocol {

inline constexpr std::size_t kFrameHeaderBytes = 4;

inline std::size_t frame_body_bytes(const char* header) {
  std::size_t length = 0;
  for (int i = 0; i < 4; ++i) length |= static_cast<std::size_t>(static_cast<unsigned char>(header[i])) << (8 * i);
  return length;
}

// For the message types that codec.cc instantiates: Bootstrap, AgentUp and AgentDown (agent_messages.h),
// WorkerToAgent and WorkerDown (worker_messages.h), GuestUp and GuestDown (agent_messages.h).
template <class Message>
std::string encode_frame(const Message& message);
template <class Message>
Result<Message> decode_body(std::string_view body);

// Splits a byte stream into frame bodies. The length is checked before anything is stored.
// Thread: one. Errors: an oversized frame; the stream is unusable afterwards.

class FrameReader {
 public:
  explicit FrameReader(std::size_t max_body_bytes) : max_body_bytes_(max_body_bytes) {}

  Status feed(std::string_view bytes) {
    compact();
    buffer_.append(bytes);
    return check_next_length();
  }

  // Returns the next complete body without its length, if one has arrived. An oversized frame after it is reported by
  // the next feed(), or here by an empty optional with failed() set.
  std::optional<std::string> next() {
    if (failed_ || buffer_.size() - start_ < kFrameHeaderBytes) return std::nullopt;
    const std::size_t length = frame_body_bytes(buffer_.data() + start_);
    if (buffer_.size() - start_ - kFrameHeaderBytes < length) return std::nullopt;
    std::string body = buffer_.substr(start_ + kFrameHeaderBytes, length);
    start_ += kFrameHeaderBytes + length;
    (void)check_next_length();
    return body;
  }

  bool failed() const { return failed_; }
  std::size_t buffered_bytes() const { return buffer_.size() - start_; }

 private:
  Status check_next_length() {
    if (buffer_.size() - start_ >= kFrameHeaderBytes) {
      const std::size_t length = frame_body_bytes(buffer_.data() + start_);
      failed_ = failed_ || length > max_body_bytes_;
    }
    if (!failed_) return {};
    return Error{ErrorCode::kInvalid, "frame is larger than " + std::to_string(max_body_bytes_) + " bytes"};
  }

  void compact() {
    if (start_ == 0) return;
    buffer_.erase(0, start_);
    start_ = 0;
  }

  std::size_t max_body_bytes_;
  std::string buffer_;
  std::size_t start_ = 0;
  bool failed_ = false;
};

}  // namespace elastictrain::protocol

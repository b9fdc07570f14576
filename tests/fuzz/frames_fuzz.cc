// Bytes of an attacker that holds the key: cut into frames and decoded as every kind of message. The first byte selects
// the end of the connection that reads, the second how many bytes arrive at a time.
#include <cstdint>
#include <string>
#include <string_view>

#include "supervisor/protocol/agent_messages.h"
#include "supervisor/protocol/codec.h"
#include "tests/fuzz/check.h"

namespace elastictrain::fuzz {
namespace {

// A decoded message must mean the same after it is encoded and decoded again.
template <class Variant>
void decode(std::string_view body) {
  const auto first = protocol::decode_body<Variant>(body);
  if (!first) return;
  const std::string frame = protocol::encode_frame(*first);
  const auto second = protocol::decode_body<Variant>(std::string_view(frame).substr(protocol::kFrameHeaderBytes));
  check(second.ok(), "a decoded message does not decode again");
  check(protocol::encode_frame(*second) == frame, "a decoded message changes on its way");
}

void decode_as(unsigned reader, std::string_view body) {
  switch (reader % 5) {
    case 0:
      return decode<protocol::AgentUp>(body);
    case 1:
      return decode<protocol::AgentDown>(body);
    case 2:
      return decode<protocol::WorkerToAgent>(body);
    case 3:
      return decode<protocol::WorkerDown>(body);
    default:
      return decode<protocol::Bootstrap>(body);
  }
}

void read_stream(unsigned reader, std::size_t chunk, std::string_view bytes) {
  constexpr std::size_t kMaxBody = 1u << 20;
  protocol::FrameReader frames(kMaxBody);
  while (!bytes.empty() && frames.feed(bytes.substr(0, chunk)).ok()) {
    while (const auto body = frames.next()) decode_as(reader, *body);
    check(frames.failed() || frames.buffered_bytes() <= kMaxBody + protocol::kFrameHeaderBytes + chunk,
          "the frame reader holds more than a frame");
    bytes.remove_prefix(std::min(chunk, bytes.size()));
  }
}

}  // namespace
}  // namespace elastictrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  elastictrain::fuzz::read_stream(data[0], data[1] + std::size_t{1}, bytes.substr(2));
  return 0;
}

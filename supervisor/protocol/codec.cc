#include "supervisor/protocol/codec.h"

#include <exception>

#include "supervisor/protocol/limits.h"
#include "supervisor/protocol/wire.h"

namespace elastictrain::protocol {

template <class Message>
std::string encode_frame(const Message& message) {
  msgpack::sbuffer body;
  const char header[kFrameHeaderBytes] = {};
  body.write(header, kFrameHeaderBytes);
  wire::Packer packer(body);
  wire::write(packer, message);
  std::string frame(body.data(), body.size());
  wire::put_length(frame.data(), frame.size() - kFrameHeaderBytes);
  return frame;
}

template <class Message>
Result<Message> decode_body(std::string_view body) {
  constexpr std::size_t kMaxDepth = 16;
  const Error malformed{ErrorCode::kInvalid, "malformed message of " + std::to_string(body.size()) + " bytes"};
  try {
    std::size_t offset = 0;
    const msgpack::unpack_limit limit(limits::kMaxListLength, 0, limits::kMaxStringBytes, limits::kMaxStringBytes, 0,
                                      kMaxDepth);
    const msgpack::object_handle handle = msgpack::unpack(body.data(), body.size(), offset, nullptr, nullptr, limit);
    Message value;
    if (offset != body.size() || !wire::read(handle.get(), value)) return malformed;
    return value;
  } catch (const std::exception&) {
    return malformed;
  }
}

template std::string encode_frame(const Bootstrap&);
template std::string encode_frame(const WorkerToAgent&);
template std::string encode_frame(const WorkerDown&);
template std::string encode_frame(const AgentUp&);
template std::string encode_frame(const AgentDown&);
template std::string encode_frame(const GuestUp&);
template std::string encode_frame(const GuestDown&);
template Result<Bootstrap> decode_body(std::string_view);
template Result<WorkerToAgent> decode_body(std::string_view);
template Result<WorkerDown> decode_body(std::string_view);
template Result<AgentUp> decode_body(std::string_view);
template Result<AgentDown> decode_body(std::string_view);
template Result<GuestUp> decode_body(std::string_view);
template Result<GuestDown> decode_body(std::string_view);

}  // namespace elastictrain::protocol

// Purpose: how two workers of one generation recognise each other on a new connection. The connector sends first. The
// acceptor answers only an expected handshake and closes every other connection. Pure: bytes in, values out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "supervisor/protocol/ids.h"

namespace elastictrain::comm {

enum class Purpose : std::uint8_t { kRingLink = 1, kTreeLink = 2, kShmGroup = 3, kStateTransfer = 4 };

struct Handshake {
  Generation generation = 0;
  Token token{};
  Purpose purpose = Purpose::kRingLink;
  std::uint32_t from_rank = 0;
  std::uint32_t to_rank = 0;
};

inline constexpr std::size_t kHandshakeBytes = 40;
inline constexpr std::size_t kHandshakeAckBytes = 8;
using HandshakeBytes = std::array<std::byte, kHandshakeBytes>;
using HandshakeAckBytes = std::array<std::byte, kHandshakeAckBytes>;

HandshakeBytes encode(const Handshake& handshake);
// nullopt if the bytes are not a handshake of this version.
std::optional<Handshake> decode_handshake(std::span<const std::byte, kHandshakeBytes> bytes);

HandshakeAckBytes handshake_ack();
bool same_token(const Token& a, const Token& b);  // in constant time

const char* to_string(Purpose purpose);

}  // namespace elastictrain::comm

#include "train/comm/handshake.h"

#include <bit>
#include <cstring>

namespace elastictrain::comm {
namespace {

static_assert(std::endian::native == std::endian::little, "the data plane writes numbers as they lie in memory");

constexpr std::uint32_t kMagic = 0x48535445;     // "ETSH"
constexpr std::uint32_t kAckMagic = 0x4b435445;  // "ETCK"
constexpr std::uint16_t kVersion = 1;

struct Wire {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint8_t purpose;
  std::uint8_t reserved;
  std::uint64_t generation;
  std::uint8_t token[16];
  std::uint32_t from_rank;
  std::uint32_t to_rank;
};
static_assert(sizeof(Wire) == kHandshakeBytes);

bool known_purpose(std::uint8_t purpose) {
  return purpose >= static_cast<std::uint8_t>(Purpose::kRingLink) &&
         purpose <= static_cast<std::uint8_t>(Purpose::kStateTransfer);
}

}  // namespace

HandshakeBytes encode(const Handshake& handshake) {
  Wire wire{kMagic,
            kVersion,
            static_cast<std::uint8_t>(handshake.purpose),
            0,
            handshake.generation,
            {},
            handshake.from_rank,
            handshake.to_rank};
  std::memcpy(wire.token, handshake.token.data(), sizeof wire.token);
  HandshakeBytes bytes;
  std::memcpy(bytes.data(), &wire, sizeof wire);
  return bytes;
}

std::optional<Handshake> decode_handshake(std::span<const std::byte, kHandshakeBytes> bytes) {
  Wire wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.magic != kMagic || wire.version != kVersion || !known_purpose(wire.purpose)) return std::nullopt;
  Handshake handshake{wire.generation, {}, static_cast<Purpose>(wire.purpose), wire.from_rank, wire.to_rank};
  std::memcpy(handshake.token.data(), wire.token, sizeof wire.token);
  return handshake;
}

HandshakeAckBytes handshake_ack() {
  HandshakeAckBytes bytes{};
  std::memcpy(bytes.data(), &kAckMagic, sizeof kAckMagic);
  bytes[4] = static_cast<std::byte>(kVersion);
  return bytes;
}

bool same_token(const Token& a, const Token& b) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

const char* to_string(Purpose purpose) {
  switch (purpose) {
    case Purpose::kRingLink:
      return "ring link";
    case Purpose::kTreeLink:
      return "tree link";
    case Purpose::kShmGroup:
      return "shared memory";
    case Purpose::kStateTransfer:
      return "state transfer";
  }
  return "?";
}

}  // namespace elastictrain::comm

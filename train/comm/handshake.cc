#include "train/comm/handshake.h"

#include <sys/random.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>

namespace elastictrain::comm {
namespace {

static_assert(std::endian::native == std::endian::little, "the data plane writes numbers as they lie in memory");

constexpr std::uint32_t kMagic = 0x48535445;           // "ETSH"
constexpr std::uint32_t kAckMagic = 0x4b435445;        // "ETCK"
constexpr std::uint32_t kChallengeMagic = 0x43535445;  // "ETSC"
constexpr std::uint16_t kVersion = 3;
constexpr std::string_view kPurpose = "elastictrain data plane 3";

struct Wire {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint8_t purpose;
  std::uint8_t encryption;
  std::uint64_t generation;
  std::uint32_t from_rank;
  std::uint32_t to_rank;
  Nonce nonce;
};
static_assert(sizeof(Wire) == kHandshakeBytes);

struct ChallengeWire {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t encryption;
  Nonce nonce;
  Mac proof;
};
static_assert(sizeof(ChallengeWire) == kChallengeBytes);

bool known_level(std::uint16_t encryption) {
  return encryption < protocol::kEncryptionNames.size();
}

bool known_purpose(std::uint8_t purpose) {
  return purpose >= static_cast<std::uint8_t>(Purpose::kRingLink) &&
         purpose <= static_cast<std::uint8_t>(Purpose::kStore);
}

}  // namespace

Nonce make_nonce() {
  Nonce nonce;
  // Of up to 256 bytes, all come at once.
  while (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return nonce;
}

HandshakeBytes encode(const Handshake& handshake) {
  const Wire wire{kMagic,
                  kVersion,
                  static_cast<std::uint8_t>(handshake.purpose),
                  static_cast<std::uint8_t>(handshake.encryption),
                  handshake.generation,
                  handshake.from_rank,
                  handshake.to_rank,
                  handshake.nonce};
  return std::bit_cast<HandshakeBytes>(wire);
}

std::optional<Handshake> decode_handshake(std::span<const std::byte, kHandshakeBytes> bytes) {
  Wire wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.magic != kMagic || wire.version != kVersion || !known_purpose(wire.purpose)) return std::nullopt;
  if (!known_level(wire.encryption)) return std::nullopt;
  return Handshake{wire.generation, static_cast<Purpose>(wire.purpose),   wire.from_rank, wire.to_rank,
                   wire.nonce,      protocol::Encryption{wire.encryption}};
}

ChallengeBytes encode(const Challenge& challenge) {
  return std::bit_cast<ChallengeBytes>(ChallengeWire{
      kChallengeMagic, kVersion, static_cast<std::uint16_t>(challenge.encryption), challenge.nonce, challenge.proof});
}

std::optional<Challenge> decode_challenge(std::span<const std::byte, kChallengeBytes> bytes) {
  ChallengeWire wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.magic != kChallengeMagic || wire.version != kVersion) return std::nullopt;
  if (!known_level(wire.encryption)) return std::nullopt;
  return Challenge{wire.nonce, wire.proof, static_cast<protocol::Encryption>(wire.encryption)};
}

Mac prove(const Token& token, Side side, const HandshakeBytes& handshake, const Nonce& acceptor_nonce,
          protocol::Encryption encryption) {
  const auto key = std::as_bytes(std::span(token));
  return keyed_hash(key, {std::as_bytes(std::span(kPurpose)), std::as_bytes(std::span(&side, 1)), handshake,
                          acceptor_nonce, std::as_bytes(std::span(&encryption, 1))});
}

HandshakeAckBytes handshake_ack() {
  HandshakeAckBytes bytes{};
  std::memcpy(bytes.data(), &kAckMagic, sizeof kAckMagic);
  bytes[4] = static_cast<std::byte>(kVersion);
  return bytes;
}

Status check_levels(const ConnectionEnd& own, const ConnectionEnd& peer) {
  if (own.encryption == peer.encryption) return {};
  const auto end = [](const ConnectionEnd& side) {
    return '"' + std::string(protocol::name_of(side.encryption)) + "\" at rank " + std::to_string(side.rank);
  };
  return Error{ErrorCode::kInvalid, "network.encryption is " + end(own) + " and " + end(peer) +
                                        "; give all workers the same value (ELASTICTRAIN_ENCRYPTION)"};
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
    case Purpose::kStore:
      return "store";
  }
  return "?";
}

}  // namespace elastictrain::comm

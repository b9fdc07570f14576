// Purpose: authenticates two workers of one generation to each other on a new connection: a mutual challenge and
// response with the generation's token, which never crosses the connection. Pure: bytes in, values out.
//
//   connector                                          acceptor
//     | hello: generation, purpose, ranks, its nonce  ->  |   closes the connection unless it expects this
//     |  <-  challenge: its nonce, and its proof          |
//     | the proof of the connector  ->                    |   closes the connection if the proof is wrong
//     |  <-  acknowledgement                              |
//
// A proof is HMAC-SHA-256 with the token as key, over the side, the hello and the acceptor's nonce: it is of one
// connection, one direction and one generation, so what somebody has seen on the wire opens no other connection. What
// follows is protected by records (record_cipher.h) at the level that both ends name; neither takes part at another
// one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "supervisor/protocol/encryption.h"
#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/result.h"
#include "train/comm/keyed_hash.h"

namespace elastictrain::comm {

enum class Purpose : std::uint8_t { kRingLink = 1, kTreeLink = 2, kShmGroup = 3, kStateTransfer = 4, kStore = 5 };

using Nonce = std::array<std::byte, 16>;
Nonce make_nonce();  // from the operating system's random source

struct Handshake {
  Generation generation = 0;
  Purpose purpose = Purpose::kRingLink;
  std::uint32_t from_rank = 0;
  std::uint32_t to_rank = 0;
  Nonce nonce{};
  protocol::Encryption encryption = protocol::Encryption::kNone;
};

struct Challenge {
  Nonce nonce{};
  Mac proof{};
  protocol::Encryption encryption = protocol::Encryption::kNone;
};

inline constexpr std::size_t kHandshakeBytes = 40;
inline constexpr std::size_t kChallengeBytes = 56;
inline constexpr std::size_t kHandshakeAckBytes = 8;
using HandshakeBytes = std::array<std::byte, kHandshakeBytes>;
using ChallengeBytes = std::array<std::byte, kChallengeBytes>;
using HandshakeAckBytes = std::array<std::byte, kHandshakeAckBytes>;

HandshakeBytes encode(const Handshake& handshake);
// nullopt if the bytes are not a handshake of this version.
std::optional<Handshake> decode_handshake(std::span<const std::byte, kHandshakeBytes> bytes);
ChallengeBytes encode(const Challenge& challenge);
std::optional<Challenge> decode_challenge(std::span<const std::byte, kChallengeBytes> bytes);

enum class Side : std::uint8_t { kConnector = 1, kAcceptor = 2 };
// `encryption`: the acceptor's; the connector's is in the handshake.
Mac prove(const Token& token, Side side, const HandshakeBytes& handshake, const Nonce& acceptor_nonce,
          protocol::Encryption encryption);

HandshakeAckBytes handshake_ack();

// One end of a connection: its rank and its level of protection.
struct ConnectionEnd {
  std::uint32_t rank = 0;
  protocol::Encryption encryption = protocol::Encryption::kNone;
};
// kInvalid if the levels differ.
Status check_levels(const ConnectionEnd& own, const ConnectionEnd& peer);

const char* to_string(Purpose purpose);

}  // namespace elastictrain::comm

// Purpose: the keys of one connection's records (record_cipher.h), derived by HKDF-SHA-256 (RFC 5869) from the
// generation's token and everything that both ends have said in the handshake: generation, purpose, both ranks, both
// nonces and the level of protection. Each direction has a secret of its own, from which keys follow one another.
// Thread: any. Failure: none.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>

#include "supervisor/protocol/encryption.h"
#include "train/comm/gcm.h"
#include "train/comm/handshake.h"

namespace elastictrain::comm {

using RecordSecret = std::array<std::byte, 32>;

struct RecordSecrets {
  protocol::Encryption level = protocol::Encryption::kNone;  // then there are no records
  RecordSecret sent{};
  RecordSecret received{};
};

// For the `side` that calls.
RecordSecrets record_secrets(const Token& token, Side side, const HandshakeBytes& handshake,
                             const Nonce& acceptor_nonce, protocol::Encryption level);

struct RecordKey {
  GcmKey key{};  // AES-128: the token has 128 bits, too
  GcmIv iv{};
};
RecordKey record_key(const RecordSecret& secret);
// The secret after this one; none of the earlier ones follows from it.
RecordSecret next_secret(const RecordSecret& secret);

// HKDF with an output of up to 32 bytes, which is one block.
RecordSecret hkdf_extract(std::span<const std::byte> salt, std::span<const std::byte> key_material);
RecordSecret hkdf_expand(const RecordSecret& secret, std::initializer_list<std::span<const std::byte>> info);

}  // namespace elastictrain::comm

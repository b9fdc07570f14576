// Purpose: protection of one connection's records: keys derived from the handshake, and the cipher that seals and
// opens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include "supervisor/protocol/encryption.h"
#include "train/comm/gcm.h"
#include "train/comm/handshake.h"

// The keys of one connection's records (record_cipher.h), derived by HKDF-SHA-256 (RFC 5869) from the
// generation's token and everything that both ends have said in the handshake: generation, purpose, both ranks, both
// nonces and the level of protection. Each direction has a secret of its own, from which keys follow one another.
// Thread: any. Failure: none.

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

// Seals and opens the records of one direction of a connection, by AES-128-GCM or its authentication alone
// (GMAC). A record is
//
//   number of bytes (4) | bytes, encrypted at the level "full" | tag (16)
//
// With authentication alone the content leaves from where it is, without a copy. The number of bytes needs no
// authentication of its own: GCM authenticates the length of what it is given.
//
// Records are numbered from 0 without a gap. The number is in no record: as in TLS 1.3 (RFC 8446, section 5.3) it is
// combined with the key's vector, so a record that is changed, repeated, left out or out of order does not open. The
// key changes every kRecordsPerKey records, far below what GCM allows.
//
// Ownership: none. Thread: one at a time. Failure: open() is false; the connection is then worth nothing.

inline constexpr std::size_t kRecordHeaderBytes = 4;
inline constexpr std::size_t kRecordTagBytes = kGcmTagBytes;
inline constexpr std::size_t kRecordOverheadBytes = kRecordHeaderBytes + kRecordTagBytes;
inline constexpr std::size_t kMaxRecordBytes = 256 << 10;  // of content: two fit into a processor's second cache
inline constexpr std::uint64_t kRecordsPerKey = 1 << 20;

// The three parts of a record.
struct SealedRecord {
  std::array<std::byte, kRecordHeaderBytes> header;
  std::span<const std::byte> body;
  std::array<std::byte, kRecordTagBytes> tag;
};

class RecordCipher {
 public:
  RecordCipher(protocol::Encryption level, const RecordSecret& secret, std::uint64_t records_per_key = kRecordsPerKey);
  ~RecordCipher();
  RecordCipher(const RecordCipher&) = delete;
  RecordCipher& operator=(const RecordCipher&) = delete;

  bool encrypts() const { return encrypts_; }
  // The body is in `room`, which is as large as the content, if this cipher encrypts; otherwise it is the content.
  SealedRecord seal(std::span<const std::byte> content, std::span<std::byte> room);
  // `record` is whole for a content of this size. What is in `content` after a failure is not to be used.
  bool open(std::span<const std::byte> record, std::span<std::byte> content);
  // For a cipher that does not encrypt: whether this is the content and the tag of the next record.
  bool authentic(std::span<const std::byte> content, std::span<const std::byte> tag);

 private:
  // The vector of the next record.
  GcmIv next_iv();

  const bool encrypts_;
  const std::uint64_t records_per_key_;
  RecordSecret secret_;
  RecordKey key_;
  std::uint64_t number_ = 0;
  std::unique_ptr<Gcm> gcm_ = make_gcm();
};

// Of the content that the header at the front of `record` announces; 0 or more than kMaxRecordBytes: it is no record.
std::size_t record_content_bytes(std::span<const std::byte> record);

}  // namespace elastictrain::comm

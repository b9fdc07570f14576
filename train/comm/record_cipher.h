// Purpose: seals and opens the records of one direction of a connection, by AES-128-GCM or its authentication alone
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
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "train/comm/record_keys.h"

namespace elastictrain::comm {

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

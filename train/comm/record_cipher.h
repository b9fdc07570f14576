// Purpose: seals and opens the records of one direction of a connection, by AES-128-GCM or its authentication alone
// (GMAC). A record is
//
//   number of bytes (4) | bytes, encrypted at the level "full" | tag (16)
//
// Records are numbered from 0 without a gap. The number is in no record: as in TLS 1.3 (RFC 8446, section 5.3) it is
// combined with the key's vector, so a record that is changed, repeated, left out or out of order does not open. The
// key changes every kRecordsPerKey records, far below what GCM allows.
//
// Ownership: none. Thread: one at a time. Failure: open() is false; the connection is then worth nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "train/comm/record_keys.h"

namespace elastictrain::comm {

inline constexpr std::size_t kRecordHeaderBytes = 4;
inline constexpr std::size_t kRecordTagBytes = kGcmTagBytes;
inline constexpr std::size_t kRecordOverheadBytes = kRecordHeaderBytes + kRecordTagBytes;
inline constexpr std::size_t kMaxRecordBytes = 64 << 10;  // of content: small enough for a processor's second cache
inline constexpr std::uint64_t kRecordsPerKey = 1 << 20;

class RecordCipher {
 public:
  RecordCipher(protocol::Encryption level, const RecordSecret& secret, std::uint64_t records_per_key = kRecordsPerKey);
  ~RecordCipher();
  RecordCipher(const RecordCipher&) = delete;
  RecordCipher& operator=(const RecordCipher&) = delete;

  // `record` has room for the content and kRecordOverheadBytes.
  void seal(std::span<const std::byte> content, std::byte* record);
  // `record` is whole, and `content` has exactly the size that its header states. What is in `content` after a failure
  // is not to be used.
  bool open(std::span<const std::byte> record, std::span<std::byte> content);

 private:
  // The vector of the next record.
  GcmIv next_iv();
  // What is authenticated only, of a record with a content of this size.
  std::size_t header_bytes(std::size_t content_bytes) const;

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

#include "train/comm/record_cipher.h"

#include <openssl/crypto.h>

#include <cstring>

namespace elastictrain::comm {

RecordCipher::RecordCipher(protocol::Encryption level, const RecordSecret& secret, std::uint64_t records_per_key)
    : encrypts_(level == protocol::Encryption::kFull), records_per_key_(records_per_key), secret_(secret) {}

RecordCipher::~RecordCipher() {
  OPENSSL_cleanse(secret_.data(), secret_.size());
  OPENSSL_cleanse(&key_, sizeof key_);
}

GcmIv RecordCipher::next_iv() {
  if (number_ % records_per_key_ == 0) {
    if (number_ > 0) secret_ = next_secret(secret_);
    key_ = record_key(secret_);
    gcm_->use_key(key_.key);
  }
  GcmIv iv = key_.iv;
  for (std::size_t i = 0; i < sizeof number_; ++i) iv[iv.size() - 1 - i] ^= static_cast<std::byte>(number_ >> (8 * i));
  ++number_;
  return iv;
}

SealedRecord RecordCipher::seal(std::span<const std::byte> content, std::span<std::byte> room) {
  SealedRecord record;
  const auto size = static_cast<std::uint32_t>(content.size());
  std::memcpy(record.header.data(), &size, sizeof size);
  if (encrypts_) {
    gcm_->seal(next_iv(), record.header, content, room.data(), record.tag.data());
    record.body = room.first(content.size());
  } else {
    gcm_->seal(next_iv(), content, {}, nullptr, record.tag.data());
    record.body = content;
  }
  return record;
}

bool RecordCipher::open(std::span<const std::byte> record, std::span<std::byte> content) {
  if (record_content_bytes(record) != content.size()) return false;
  const auto body = record.subspan(kRecordHeaderBytes, content.size());
  const auto tag = record.subspan(kRecordHeaderBytes + content.size(), kRecordTagBytes);
  if (encrypts_) return gcm_->open(next_iv(), record.first(kRecordHeaderBytes), body, content.data(), tag.data());
  if (!authentic(body, tag)) return false;
  std::memcpy(content.data(), body.data(), body.size());
  return true;
}

bool RecordCipher::authentic(std::span<const std::byte> content, std::span<const std::byte> tag) {
  return gcm_->open(next_iv(), content, {}, nullptr, tag.data());
}

std::size_t record_content_bytes(std::span<const std::byte> record) {
  std::uint32_t size = 0;
  std::memcpy(&size, record.data(), sizeof size);
  return size;
}

}  // namespace elastictrain::comm

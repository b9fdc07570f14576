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

std::size_t RecordCipher::header_bytes(std::size_t content_bytes) const {
  return kRecordHeaderBytes + (encrypts_ ? 0 : content_bytes);
}

void RecordCipher::seal(std::span<const std::byte> content, std::byte* record) {
  const auto size = static_cast<std::uint32_t>(content.size());
  std::memcpy(record, &size, sizeof size);
  std::byte* const body = record + kRecordHeaderBytes;
  if (!encrypts_) std::memcpy(body, content.data(), content.size());
  gcm_->seal(next_iv(), {record, header_bytes(content.size())}, encrypts_ ? content : std::span<const std::byte>(),
             body, body + content.size());
}

bool RecordCipher::open(std::span<const std::byte> record, std::span<std::byte> content) {
  const auto header = record.first(header_bytes(content.size()));
  const auto body = record.subspan(kRecordHeaderBytes, content.size());
  const auto sealed = encrypts_ ? body : std::span<const std::byte>();
  const auto tag = record.subspan(kRecordHeaderBytes + content.size(), kRecordTagBytes);
  if (!gcm_->open(next_iv(), header, sealed, content.data(), tag.data())) return false;
  if (!encrypts_) std::memcpy(content.data(), body.data(), body.size());
  return true;
}

std::size_t record_content_bytes(std::span<const std::byte> record) {
  std::uint32_t size = 0;
  std::memcpy(&size, record.data(), sizeof size);
  return size;
}

}  // namespace elastictrain::comm

#include "train/comm/record_cipher.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "supervisor/protocol/check.h"

namespace elastictrain::comm {
namespace {

constexpr std::string_view kDirection = "elastictrain records 1 direction";
constexpr std::string_view kKey = "elastictrain records 1 key";
constexpr std::string_view kIv = "elastictrain records 1 iv";
constexpr std::string_view kNext = "elastictrain records 1 next";

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

template <std::size_t N>
std::array<std::byte, N> first_of(const RecordSecret& bytes) {
  std::array<std::byte, N> first;
  std::copy_n(bytes.begin(), N, first.begin());
  return first;
}

}  // namespace

RecordSecret hkdf_extract(std::span<const std::byte> salt, std::span<const std::byte> key_material) {
  return keyed_hash(salt, {key_material});
}

RecordSecret hkdf_expand(const RecordSecret& secret, std::initializer_list<std::span<const std::byte>> info) {
  std::vector<std::span<const std::byte>> parts(info);
  constexpr std::byte kFirstBlock{1};
  parts.push_back(std::span(&kFirstBlock, 1));
  return keyed_hash(secret, parts);
}

RecordSecrets record_secrets(const Token& token, Side side, const HandshakeBytes& handshake,
                             const Nonce& acceptor_nonce, protocol::Encryption level) {
  if (level == protocol::Encryption::kNone) return {};
  const auto extracted = hkdf_extract(acceptor_nonce, std::as_bytes(std::span(token)));
  const auto from = [&](Side sender) {
    return hkdf_expand(extracted, {bytes_of(kDirection), std::as_bytes(std::span(&sender, 1)), handshake,
                                   std::as_bytes(std::span(&level, 1))});
  };
  const Side other = side == Side::kConnector ? Side::kAcceptor : Side::kConnector;
  return {level, from(side), from(other)};
}

RecordKey record_key(const RecordSecret& secret) {
  return {first_of<16>(hkdf_expand(secret, {bytes_of(kKey)})), first_of<12>(hkdf_expand(secret, {bytes_of(kIv)}))};
}

RecordSecret next_secret(const RecordSecret& secret) {
  return hkdf_expand(secret, {bytes_of(kNext)});
}

RecordCipher::RecordCipher(protocol::Encryption level, const RecordSecret& secret, std::uint64_t records_per_key)
    : encrypts_(level == protocol::Encryption::kFull), records_per_key_(records_per_key), secret_(secret) {
  ET_CHECK(level != protocol::Encryption::kNone && records_per_key_ > 0, "records are protected by keys");
}

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
  ET_CHECK(!content.empty() && content.size() <= kMaxRecordBytes, "a record holds some bytes, and not too many");
  ET_CHECK(!encrypts_ || room.size() >= content.size(), "what is encrypted has its room");
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

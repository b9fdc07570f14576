#include "train/comm/record_keys.h"

#include <algorithm>
#include <string_view>
#include <vector>

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

}  // namespace elastictrain::comm

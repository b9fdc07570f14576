#define OPENSSL_SUPPRESS_DEPRECATED
#include "train/comm/keyed_hash.h"

#include <openssl/sha.h>

#include <algorithm>
#include <cstdint>

namespace elastictrain::comm {
namespace {

constexpr std::size_t kBlockBytes = 64;
constexpr std::byte kInner{0x36};
constexpr std::byte kOuter{0x5c};

class Hash {
 public:
  // Begins with the key, padded to a block and combined with `pad`.
  Hash(std::span<const std::byte> key, std::byte pad) {
    std::array<std::byte, kBlockBytes> block{};
    std::copy(key.begin(), key.end(), block.begin());
    for (std::byte& byte : block) byte ^= pad;
    SHA256_Init(&context_);
    add(block);
  }
  void add(std::span<const std::byte> bytes) { SHA256_Update(&context_, bytes.data(), bytes.size()); }
  Mac end() {
    Mac digest;
    SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &context_);
    return digest;
  }

 private:
  SHA256_CTX context_{};
};

static_assert(sizeof(Mac) == SHA256_DIGEST_LENGTH);

}  // namespace

Mac keyed_hash(std::span<const std::byte> key, std::span<const std::span<const std::byte>> parts) {
  Hash inner(key, kInner);
  for (const auto& part : parts) inner.add(part);
  Hash outer(key, kOuter);
  outer.add(inner.end());
  return outer.end();
}

bool same_mac(const Mac& a, const Mac& b) {
  std::byte difference{0};
  for (std::size_t i = 0; i < a.size(); ++i) difference |= a[i] ^ b[i];
  return difference == std::byte{0};
}

}  // namespace elastictrain::comm

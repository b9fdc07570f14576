#include "train/comm/gcm.h"

#include <openssl/crypto.h>

#include <utility>

namespace elastictrain::comm {
namespace {

// Below this size the two edges of the text cost more than is gained.
constexpr std::size_t kLongBytes = 8 << 10;

// Another implementation, but for what is long and only authenticated.
class GcmWithVectors final : public Gcm {
 public:
  explicit GcmWithVectors(std::unique_ptr<Gcm> gcm) : gcm_(std::move(gcm)) {}

  void use_key(const GcmKey& key) override {
    gcm_->use_key(key);
    GcmBlock subkey = hash_subkey(key);
    ghash_.use_key(subkey);
    OPENSSL_cleanse(subkey.data(), subkey.size());
  }

  void seal(const GcmIv& iv, std::span<const std::byte> header, std::span<const std::byte> content, std::byte* sealed,
            std::byte* tag) override {
    if (!content.empty() || header.size() < kLongBytes) return gcm_->seal(iv, header, content, sealed, tag);
    // The hash of nothing is 0, so its tag is what the hash is combined with.
    gcm_->seal(iv, {}, {}, nullptr, tag);
    const GcmBlock hash = ghash_.hash(header);
    for (std::size_t i = 0; i < kGcmTagBytes; ++i) tag[i] ^= hash[i];
  }

  bool open(const GcmIv& iv, std::span<const std::byte> header, std::span<const std::byte> sealed, std::byte* content,
            const std::byte* tag) override {
    if (!sealed.empty() || header.size() < kLongBytes) return gcm_->open(iv, header, sealed, content, tag);
    std::array<std::byte, kGcmTagBytes> expected;
    seal(iv, header, {}, nullptr, expected.data());
    return CRYPTO_memcmp(expected.data(), tag, kGcmTagBytes) == 0;
  }

 private:
  std::unique_ptr<Gcm> gcm_;
  Ghash ghash_;
};

}  // namespace

std::unique_ptr<Gcm> make_gcm() {
  auto gcm = make_gcm_of_ipsec();
  if (!gcm) gcm = make_gcm_of_openssl();
  if (!Ghash::possible()) return gcm;
  return std::make_unique<GcmWithVectors>(std::move(gcm));
}

}  // namespace elastictrain::comm

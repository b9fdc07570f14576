#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "supervisor/protocol/result.h"
#include "train/comm/gcm.h"

namespace elastictrain::comm {
namespace {

const unsigned char* in(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* out(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}

void require(bool good) {
  if (!good) panic("a cipher of OpenSSL failed");
}

// A context of our own, never freed: nothing of it depends on the machine's OpenSSL configuration, and a thread that
// still transfers data while the program ends finds it in place.
const EVP_CIPHER* aes_gcm() {
  static const EVP_CIPHER* const cipher = [] {
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
    const EVP_CIPHER* found = EVP_CIPHER_fetch(OSSL_LIB_CTX_new(), "AES-128-GCM", nullptr);
    require(found != nullptr);
    return found;
  }();
  return cipher;
}

class GcmOfOpenssl final : public Gcm {
 public:
  GcmOfOpenssl() { require(context_ != nullptr); }
  ~GcmOfOpenssl() override { EVP_CIPHER_CTX_free(context_); }
  GcmOfOpenssl(const GcmOfOpenssl&) = delete;
  GcmOfOpenssl& operator=(const GcmOfOpenssl&) = delete;

  void use_key(const GcmKey& key) override {
    require(EVP_CipherInit_ex(context_, aes_gcm(), nullptr, in(key.data()), nullptr, 1) == 1);
  }

  void seal(const GcmIv& iv, std::span<const std::byte> header, std::span<const std::byte> content, std::byte* sealed,
            std::byte* tag) override {
    begin(iv, header, true);
    add(content, sealed);
    require(finish());
    require(EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_GET_TAG, kGcmTagBytes, tag) == 1);
  }

  bool open(const GcmIv& iv, std::span<const std::byte> header, std::span<const std::byte> sealed, std::byte* content,
            const std::byte* tag) override {
    begin(iv, header, false);
    add(sealed, content);
    require(EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_SET_TAG, kGcmTagBytes, const_cast<std::byte*>(tag)) == 1);
    return finish();
  }

 private:
  void begin(const GcmIv& iv, std::span<const std::byte> header, bool seals) {
    require(EVP_CipherInit_ex(context_, nullptr, nullptr, nullptr, in(iv.data()), seals ? 1 : 0) == 1);
    int written = 0;
    require(EVP_CipherUpdate(context_, nullptr, &written, in(header.data()), static_cast<int>(header.size())) == 1);
  }
  void add(std::span<const std::byte> bytes, std::byte* result) {
    int written = 0;
    if (bytes.empty()) return;
    require(EVP_CipherUpdate(context_, out(result), &written, in(bytes.data()), static_cast<int>(bytes.size())) == 1);
  }
  bool finish() {
    unsigned char nothing[EVP_MAX_BLOCK_LENGTH];
    int written = 0;
    return EVP_CipherFinal_ex(context_, nothing, &written) == 1;
  }

  EVP_CIPHER_CTX* const context_ = EVP_CIPHER_CTX_new();
};

}  // namespace

std::unique_ptr<Gcm> make_gcm_of_openssl() {
  return std::make_unique<GcmOfOpenssl>();
}

std::unique_ptr<Gcm> make_gcm() {
  auto fast = make_gcm_of_ipsec();
  return fast ? std::move(fast) : make_gcm_of_openssl();
}

}  // namespace elastictrain::comm

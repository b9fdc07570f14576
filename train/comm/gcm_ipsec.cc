#include "train/comm/gcm.h"

#ifdef ELASTICTRAIN_HAS_IPSEC_MB
#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>

// Its functions for one kind of processor: 0.5 MB; the table of all kinds would bring in 12 MB. The header declares
// those of the older kinds in the same way.
extern "C" {
void aes_gcm_precomp_128_vaes_avx512(gcm_key_data* key_data);
void aes_gcm_enc_128_vaes_avx512(const gcm_key_data* key_data, gcm_context_data* context_data, uint8_t* out,
                                 const uint8_t* in, uint64_t len, const uint8_t* iv, const uint8_t* aad,
                                 uint64_t aad_len, uint8_t* auth_tag, uint64_t auth_tag_len);
void aes_gcm_dec_128_vaes_avx512(const gcm_key_data* key_data, gcm_context_data* context_data, uint8_t* out,
                                 const uint8_t* in, uint64_t len, const uint8_t* iv, const uint8_t* aad,
                                 uint64_t aad_len, uint8_t* auth_tag, uint64_t auth_tag_len);
}

namespace elastictrain::comm {
namespace {

const uint8_t* in(const std::byte* bytes) {
  return reinterpret_cast<const uint8_t*>(bytes);
}
uint8_t* out(std::byte* bytes) {
  return reinterpret_cast<uint8_t*>(bytes);
}

bool processor_has_vector_aes() {
  return __builtin_cpu_supports("vaes") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0 &&
         __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
         __builtin_cpu_supports("bmi2") != 0;
}

class GcmOfIpsec final : public Gcm {
 public:
  GcmOfIpsec() = default;
  ~GcmOfIpsec() override { OPENSSL_cleanse(&key_, sizeof key_); }
  GcmOfIpsec(const GcmOfIpsec&) = delete;
  GcmOfIpsec& operator=(const GcmOfIpsec&) = delete;

  void use_key(const GcmKey& key) override {
    aes_keyexp_128_enc_avx512(key.data(), key_.expanded_keys);
    aes_gcm_precomp_128_vaes_avx512(&key_);
  }

  void seal(const GcmIv& iv, std::span<const std::byte> header, std::span<const std::byte> content, std::byte* sealed,
            std::byte* tag) override {
    gcm_context_data context;
    aes_gcm_enc_128_vaes_avx512(&key_, &context, out(sealed), in(content.data()), content.size(), in(iv.data()),
                                in(header.data()), header.size(), out(tag), kGcmTagBytes);
  }

  bool open(const GcmIv& iv, std::span<const std::byte> header, std::span<const std::byte> sealed, std::byte* content,
            const std::byte* tag) override {
    gcm_context_data context;
    std::array<std::byte, kGcmTagBytes> expected;
    aes_gcm_dec_128_vaes_avx512(&key_, &context, out(content), in(sealed.data()), sealed.size(), in(iv.data()),
                                in(header.data()), header.size(), out(expected.data()), kGcmTagBytes);
    return CRYPTO_memcmp(expected.data(), tag, kGcmTagBytes) == 0;
  }

 private:
  alignas(64) gcm_key_data key_{};
};

}  // namespace

std::unique_ptr<Gcm> make_gcm_of_ipsec() {
  return processor_has_vector_aes() ? std::make_unique<GcmOfIpsec>() : nullptr;
}

}  // namespace elastictrain::comm
#else
namespace elastictrain::comm {

std::unique_ptr<Gcm> make_gcm_of_ipsec() {
  return nullptr;
}

}  // namespace elastictrain::comm
#endif

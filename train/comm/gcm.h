// Purpose: AES-128-GCM (NIST SP 800-38D), by the fastest code that this machine can run: Intel's IPsec library on
// processors with vector AES (VAES, AVX-512), where it was there at build time, otherwise OpenSSL. Both give the same
// bytes.
//
// Ownership: none; keys are erased. Thread: one at a time. Failure: open() is false if anything was changed.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace elastictrain::comm {

using GcmKey = std::array<std::byte, 16>;
using GcmIv = std::array<std::byte, 12>;
inline constexpr std::size_t kGcmTagBytes = 16;

class Gcm {
 public:
  virtual ~Gcm() = default;
  virtual void use_key(const GcmKey& key) = 0;
  // `sealed` has room for the content and is not part of it; `tag` for kGcmTagBytes. No iv is used twice with a key.
  virtual void seal(const GcmIv& iv, std::span<const std::byte> header, std::span<const std::byte> content,
                    std::byte* sealed, std::byte* tag) = 0;
  virtual bool open(const GcmIv& iv, std::span<const std::byte> header, std::span<const std::byte> sealed,
                    std::byte* content, const std::byte* tag) = 0;
};

std::unique_ptr<Gcm> make_gcm();

// For make_gcm() and tests. Null: this machine, or this build, has none.
std::unique_ptr<Gcm> make_gcm_of_openssl();
std::unique_ptr<Gcm> make_gcm_of_ipsec();

}  // namespace elastictrain::comm

#include "train/checkpoint/checksum.h"

#include <cstdio>

// Compiled into this file: users' programs need no further library.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "supervisor/protocol/result.h"

namespace elastictrain::checkpoint {
namespace {

XXH3_state_t* of(void* state) {
  return static_cast<XXH3_state_t*>(state);
}

}  // namespace

Checksum::Checksum() : state_(XXH3_createState()) {
  if (state_ == nullptr) panic("out of memory");
  XXH3_128bits_reset(of(state_));
}

Checksum::~Checksum() {
  XXH3_freeState(of(state_));
}

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(of(state_), bytes.data(), bytes.size());
}

std::string Checksum::digits() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(of(state_));
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

std::string checksum_of(std::span<const std::byte> bytes) {
  Checksum checksum;
  checksum.add(bytes);
  return checksum.digits();
}

}  // namespace elastictrain::checkpoint

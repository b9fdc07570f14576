// The polynomials are in the order of their coefficients: the bits of each byte are turned around (an affine
// transformation), which needs no unit that the multiplications need. GCM's own order would need one of them.
//
// Block b of n is to be multiplied by the power n-b. Four blocks lie in a vector, and each of its four places has a sum
// of its own from one chunk to the next: with the power of the vector's first block they are all a whole chunk apart.
// Only the last chunk has the powers of every single block.
#include "train/comm/ghash.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>

#define ET_VECTORS __attribute__((target("avx512f,avx512bw,avx512vl,vpclmulqdq,gfni")))

namespace elastictrain::comm {
namespace {

constexpr std::size_t kBlockBytes = 16;
constexpr std::size_t kVectorBytes = 64;
constexpr std::size_t kVectors = Ghash::kChunkBytes / kVectorBytes;
constexpr std::size_t kChunkBlocks = Ghash::kChunkBytes / kBlockBytes;
constexpr std::size_t kAheadBytes = 2048;  // of what is read: a page's end stops the processor's own foresight

ET_VECTORS inline __m512i turn_bits(__m512i bytes) {
  return _mm512_gf2p8affine_epi64_epi8(bytes, _mm512_set1_epi64(0x8040201008040201), 0);
}

// Modulo x^128 + x^7 + x^2 + x + 1, for each of the four products low + x^64 middle + x^128 high.
ET_VECTORS inline __m512i reduce(__m512i low, __m512i middle, __m512i high) {
  const __m512i polynomial = _mm512_set1_epi64(0x87);
  middle = _mm512_xor_si512(middle, _mm512_clmulepi64_epi128(high, polynomial, 0x01));
  low = _mm512_xor_si512(low, _mm512_bslli_epi128(middle, 8));
  high = _mm512_xor_si512(high, _mm512_bsrli_epi128(middle, 8));
  return _mm512_xor_si512(low, _mm512_clmulepi64_epi128(high, polynomial, 0x00));
}

ET_VECTORS __m512i product(__m512i a, __m512i b) {
  const __m512i middle = _mm512_xor_si512(_mm512_clmulepi64_epi128(a, b, 0x01), _mm512_clmulepi64_epi128(a, b, 0x10));
  return reduce(_mm512_clmulepi64_epi128(a, b, 0x00), middle, _mm512_clmulepi64_epi128(a, b, 0x11));
}

ET_VECTORS __m512i load_block(const GcmBlock& block) {
  return _mm512_maskz_loadu_epi64(0x03, block.data());
}
ET_VECTORS GcmBlock store_block(__m512i vector) {
  GcmBlock block;
  _mm512_mask_storeu_epi64(block.data(), 0x03, vector);
  return block;
}

// The sums of the four places after one more chunk.
ET_VECTORS inline __m512i add_chunk(__m512i sums, const std::byte* text, const std::byte* powers) {
  __m512i low = _mm512_setzero_si512();
  __m512i middle = low;
  __m512i high = low;
#pragma GCC unroll 16
  for (std::size_t at = 0; at < Ghash::kChunkBytes; at += kVectorBytes) {
    __m512i blocks = turn_bits(_mm512_loadu_si512(text + at));
    if (at == 0) blocks = _mm512_xor_si512(blocks, sums);
    const __m512i power = _mm512_load_si512(powers + at);
    low = _mm512_xor_si512(low, _mm512_clmulepi64_epi128(blocks, power, 0x00));
    high = _mm512_xor_si512(high, _mm512_clmulepi64_epi128(blocks, power, 0x11));
    middle = _mm512_xor_si512(middle, _mm512_xor_si512(_mm512_clmulepi64_epi128(blocks, power, 0x01),
                                                       _mm512_clmulepi64_epi128(blocks, power, 0x10)));
  }
  return reduce(low, middle, high);
}

// Into the cache; there may be no memory.
inline void fetch_chunk(const std::byte* text) {
  for (std::size_t at = 0; at < Ghash::kChunkBytes; at += kVectorBytes) _mm_prefetch(text + at, _MM_HINT_T0);
}

ET_VECTORS __m512i add_chunks(__m512i sums, std::span<const std::byte> text, const std::byte* powers) {
  for (; !text.empty(); text = text.subspan(Ghash::kChunkBytes)) {
    fetch_chunk(text.data() + kAheadBytes);
    sums = add_chunk(sums, text.data(), powers);
  }
  return sums;
}

ET_VECTORS GcmBlock sum_of_places(__m512i sums) {
  std::array<GcmBlock, 4> places;
  _mm512_storeu_si512(places.data(), turn_bits(sums));
  for (std::size_t place = 1; place < 4; ++place) {
    for (std::size_t i = 0; i < kBlockBytes; ++i) places[0][i] ^= places[place][i];
  }
  return places[0];
}

// The text as it is hashed: whole blocks, and at the end one with its length.
class Blocks {
 public:
  explicit Blocks(std::span<const std::byte> text) : text_(text) {}

  std::size_t count() const { return (text_.size() + kBlockBytes - 1) / kBlockBytes + 1; }
  // Blocks [first, first + number) as they are; `to` holds zeros.
  void copy(std::size_t first, std::size_t number, std::byte* to) const {
    const auto rest = text_.subspan(std::min(first * kBlockBytes, text_.size()));
    std::ranges::copy(rest.first(std::min(rest.size(), number * kBlockBytes)), to);
    if (first + number == count()) put_length(to + (number - 1) * kBlockBytes);
  }

 private:
  // In bits, the highest byte first; the eight bytes behind it are the content's length, 0.
  void put_length(std::byte* block) const {
    const std::uint64_t bits = __builtin_bswap64(std::uint64_t{text_.size()} * 8);
    std::memcpy(block, &bits, sizeof bits);
  }

  std::span<const std::byte> text_;
};

}  // namespace

bool Ghash::possible() {
  return __builtin_cpu_supports("vpclmulqdq") != 0 && __builtin_cpu_supports("gfni") != 0 &&
         __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0;
}

ET_VECTORS void Ghash::use_key(const GcmBlock& subkey) {
  const __m512i one = turn_bits(load_block(subkey));
  __m512i power = one;
  for (std::size_t block = kChunkBlocks; block-- > 0; power = product(power, one)) {
    const GcmBlock value = store_block(power);
    std::ranges::copy(value, last_.begin() + block * kBlockBytes);
    if (block % 4 != 0) continue;
    for (std::size_t place = 0; place < 4; ++place) {
      std::ranges::copy(value, within_.begin() + (block + place) * kBlockBytes);
    }
  }
}

// Zeros in front of the text do not change the hash, so it begins with what is more than whole chunks.
ET_VECTORS GcmBlock Ghash::hash(std::span<const std::byte> text) const {
  const Blocks blocks(text);
  const std::size_t chunks = (blocks.count() + kChunkBlocks - 1) / kChunkBlocks;
  const std::size_t first = blocks.count() - (chunks - 1) * kChunkBlocks;
  alignas(kVectorBytes) Powers edge{};
  blocks.copy(0, first, edge.data() + (kChunkBlocks - first) * kBlockBytes);
  __m512i sums = _mm512_setzero_si512();
  if (chunks > 1) {
    sums = add_chunk(sums, edge.data(), within_.data());
    sums = add_chunks(sums, text.subspan(first * kBlockBytes, (chunks - 2) * kChunkBytes), within_.data());
    edge.fill(std::byte{0});
    blocks.copy(blocks.count() - kChunkBlocks, kChunkBlocks, edge.data());
  }
  return sum_of_places(add_chunk(sums, edge.data(), last_.data()));
}

#undef ET_VECTORS

#else

namespace elastictrain::comm {

bool Ghash::possible() {
  return false;
}
void Ghash::use_key(const GcmBlock&) {}
GcmBlock Ghash::hash(std::span<const std::byte>) const {
  return {};
}

#endif

Ghash::~Ghash() {
  OPENSSL_cleanse(within_.data(), within_.size());
  OPENSSL_cleanse(last_.data(), last_.size());
}

}  // namespace elastictrain::comm

#include "train/state/sampler.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace elastictrain::state {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t mask(unsigned bits) {
  return (std::uint64_t{1} << bits) - 1;
}

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) : size_(size) {
  const auto bits = std::max(2U, static_cast<unsigned>(std::bit_width(size == 0 ? 0 : size - 1)));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  std::uint64_t state = mix(seed + 0x9e3779b97f4a7c15ULL) ^ mix(~epoch);
  for (auto& key : keys_) key = mix(state += 0x9e3779b97f4a7c15ULL);
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  std::uint64_t low = value & mask(low_bits_);
  std::uint64_t high = value >> low_bits_;
  for (int round = 0; round < kRounds; round += 2) {
    high ^= mix(low + keys_[round]) & mask(high_bits_);
    low ^= mix(high + keys_[round + 1]) & mask(low_bits_);
  }
  return high << low_bits_ | low;
}

std::uint64_t Permutation::at(std::uint64_t position) const {
  std::uint64_t value = encrypt(position);
  while (value >= size_) value = encrypt(value);
  return value;
}

std::vector<std::uint64_t> split_by_shares(std::uint64_t total, std::span<const std::uint32_t> shares) {
  std::vector<std::uint64_t> parts(shares.begin(), shares.end());
  const std::uint64_t sum = std::accumulate(parts.begin(), parts.end(), std::uint64_t{0});
  if (sum == total || sum == 0) return parts;
  std::vector<std::uint64_t> remainders(shares.size());
  std::uint64_t given = 0;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    const auto product = static_cast<unsigned __int128>(total) * shares[rank];
    parts[rank] = static_cast<std::uint64_t>(product / sum);
    remainders[rank] = static_cast<std::uint64_t>(product % sum);
    given += parts[rank];
  }
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  for (std::size_t i = 0; given < total; ++i, ++given) ++parts[order[i]];
  return parts;
}

Cut cut_step(const SamplerState& state, std::uint64_t sample_count, std::span<const std::uint32_t> shares,
             std::uint32_t rank) {
  Cut cut{.epoch = state.epoch, .first = state.cursor};
  cut.total = std::accumulate(shares.begin(), shares.end(), std::uint64_t{0});
  if (sample_count != 0) cut.total = std::min(cut.total, sample_count - state.cursor);
  const auto parts = split_by_shares(cut.total, shares);
  cut.my_first = std::accumulate(parts.begin(), parts.begin() + rank, cut.first);
  cut.my_count = parts[rank];
  return cut;
}

SamplerState advance(const SamplerState& state, std::uint64_t sample_count, const Cut& cut) {
  SamplerState next = state;
  next.cursor += cut.total;
  if (sample_count != 0 && next.cursor >= sample_count) {
    ++next.epoch;
    next.cursor = 0;
  }
  return next;
}

}  // namespace elastictrain::state

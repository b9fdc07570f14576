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

std::vector<Interval> slice(std::span<const Interval> intervals, std::uint64_t skip, std::uint64_t count) {
  std::vector<Interval> taken;
  for (const auto& [first, length] : intervals) {
    const std::uint64_t skipped = std::min(skip, length);
    const std::uint64_t take = std::min(count, length - skipped);
    if (take != 0) taken.push_back({first + skipped, take});
    skip -= skipped;
    count -= take;
  }
  return taken;
}

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

bool is_well_formed(const SamplerState& state) {
  std::uint64_t end = 0;
  for (const auto& interval : state.returned) {
    const bool first = &interval == &state.returned.front();
    if (interval.count == 0 || (!first && interval.first <= end)) return false;
    if (interval.first > state.cursor || interval.count > state.cursor - interval.first) return false;
    end = interval.first + interval.count;
  }
  return true;
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

std::vector<std::uint64_t> split_with_minimum(std::uint64_t total, std::span<const std::uint32_t> shares,
                                              std::uint64_t min_part) {
  auto parts = split_by_shares(total, shares);
  const auto too_small = [&](std::uint64_t part) { return part != 0 && part < min_part; };
  if (std::none_of(parts.begin(), parts.end(), too_small)) return parts;
  std::vector<std::size_t> order;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    if (shares[rank] != 0) order.push_back(rank);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  order.resize(std::clamp<std::uint64_t>(total / min_part, 1, order.size()));
  std::fill(parts.begin(), parts.end(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    parts[order[i]] = total / order.size() + (i < total % order.size() ? 1 : 0);
  }
  return parts;
}

std::uint64_t count_of(std::span<const Interval> intervals) {
  std::uint64_t count = 0;
  for (const auto& interval : intervals) count += interval.count;
  return count;
}

std::vector<Interval> merge(std::span<const Interval> intervals, std::span<const Interval> more) {
  std::vector<Interval> all(intervals.begin(), intervals.end());
  all.insert(all.end(), more.begin(), more.end());
  std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) { return a.first < b.first; });
  std::vector<Interval> merged;
  for (const auto& interval : all) {
    if (interval.count == 0) continue;
    if (!merged.empty() && merged.back().first + merged.back().count == interval.first) {
      merged.back().count += interval.count;
    } else {
      merged.push_back(interval);
    }
  }
  return merged;
}

std::vector<Interval> Cut::part(std::size_t rank) const {
  const std::uint64_t begin =
      std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(rank), std::uint64_t{0});
  return slice(pieces, begin, counts[rank]);
}

Cut cut_step(const SamplerState& state, std::uint64_t sample_count, std::span<const std::uint32_t> shares,
             std::uint64_t min_part) {
  Cut cut{.epoch = state.epoch, .first_of_epoch = state.cursor == 0};
  cut.total = std::accumulate(shares.begin(), shares.end(), std::uint64_t{0});
  if (sample_count != 0 && cut.total != 0) {
    const std::uint64_t left = count_of(state.returned) + sample_count - state.cursor;
    const bool takes_all = left <= cut.total || left - cut.total < min_part;
    if (takes_all) cut.total = left;
  }
  cut.pieces = slice(state.returned, 0, cut.total);
  cut.fresh = cut.total - count_of(cut.pieces);
  if (cut.fresh != 0) cut.pieces.push_back({state.cursor, cut.fresh});
  cut.counts = split_with_minimum(cut.total, shares, min_part);
  return cut;
}

SamplerState without_tail(const SamplerState& state, std::uint64_t sample_count,
                          std::span<const std::uint32_t> shares) {
  if (sample_count == 0 || state.cursor == 0) return state;
  const std::uint64_t wanted = std::accumulate(shares.begin(), shares.end(), std::uint64_t{0});
  if (count_of(state.returned) + sample_count - state.cursor >= wanted) return state;
  return {.seed = state.seed, .epoch = state.epoch + 1};
}

SamplerState advance(const SamplerState& state, std::uint64_t sample_count, const Cut& cut,
                     std::span<const Interval> uncounted) {
  SamplerState next{.seed = state.seed, .epoch = state.epoch, .cursor = state.cursor + cut.fresh};
  const std::uint64_t reused = cut.total - cut.fresh;
  next.returned = merge(slice(state.returned, reused, count_of(state.returned) - reused), uncounted);
  if (sample_count != 0 && next.cursor >= sample_count && next.returned.empty()) {
    ++next.epoch;
    next.cursor = 0;
  }
  return next;
}

}  // namespace elastictrain::state

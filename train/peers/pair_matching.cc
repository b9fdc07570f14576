#include "train/peers/pair_matching.h"

#include <numeric>
#include <random>
#include <utility>

namespace elastictrain::peers {
namespace {

// Neither std::shuffle nor the standard distributions give the same results in every library.
template <class T>
void shuffle(std::vector<T>& list, std::mt19937_64& random) {
  for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[random() % i]);
}

}  // namespace

Reach::Reach(std::span<const std::byte> rows, std::uint32_t world_size) : peers_(world_size) {
  const auto reaches = [&](std::uint32_t from, std::uint32_t to) {
    const auto byte = rows[from * row_bytes(world_size) + to / 8];
    return (std::to_integer<unsigned>(byte) >> (to % 8) & 1U) != 0;
  };
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    for (std::uint32_t peer = 0; peer < world_size; ++peer) {
      if (peer != rank && reaches(rank, peer) && reaches(peer, rank)) peers_[rank].push_back(peer);
    }
  }
}

std::vector<std::uint32_t> match_pairs(const Reach& reach, std::uint64_t step) {
  std::mt19937_64 random(step);
  std::vector<std::uint32_t> partner(reach.world_size());
  std::iota(partner.begin(), partner.end(), 0U);
  std::vector<std::uint32_t> order = partner;
  shuffle(order, random);
  std::vector<std::uint32_t> free;
  for (const std::uint32_t rank : order) {
    if (partner[rank] != rank) continue;
    free.clear();
    for (const std::uint32_t peer : reach.peers(rank)) {
      if (partner[peer] == peer) free.push_back(peer);
    }
    if (free.empty()) continue;
    const std::uint32_t chosen = free[random() % free.size()];
    partner[rank] = chosen;
    partner[chosen] = rank;
  }
  return partner;
}

}  // namespace elastictrain::peers

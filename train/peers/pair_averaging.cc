#include "train/peers/pair_averaging.h"

#include <cstddef>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

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

Status PairAveraging::swap_models(bool contributes) {
  if (!reach_ || reach_of_ != assignment_.generation) {
    if (auto status = learn_reach(); !status) return status;
  }
  const std::uint32_t partner = match_pairs(*reach_, run_progress_.next_step())[assignment_.rank];
  if (partner == assignment_.rank) return {};
  if (auto status = models_.swap(*assignment_.communicator, partner, contributes); !status) return status;
  models_.keep_correction(0.5F);
  return {};
}

void PairAveraging::take_read_model() {
  if (store_.take_model(memory_)) {
    models_.receive(memory_);
    models_.keep_correction(0.5F);
  }
  if (assignment_.world_size() < 2) return;
  const auto others = assignment_.world_size() - 1;
  const auto drawn = static_cast<std::uint32_t>((random_() ^ assignment_.rank * 2'654'435'761U) % others);
  store_.read_model(drawn + (drawn >= assignment_.rank ? 1 : 0), models_.model_floats());
}

void PairAveraging::publish_model() {
  models_.copy_models(memory_);
  store_.publish_model(memory_);
}

Status PairAveraging::learn_reach() {
  auto& communicator = *assignment_.communicator;
  const std::uint32_t size = communicator.world_size();
  std::vector<std::byte> mine(Reach::row_bytes(size));
  for (std::uint32_t peer = 0; peer < size; ++peer) {
    if (communicator.reaches(peer)) mine[peer / 8] |= std::byte{1} << (peer % 8);
  }
  std::vector<std::byte> all(mine.size() * size);
  if (auto status = communicator.all_gather(mine, all); !status) return status;
  reach_.emplace(all, size);
  reach_of_ = assignment_.generation;
  return {};
}

}  // namespace elastictrain::peers

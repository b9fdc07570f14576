#include "train/peers/pair_averaging.h"

#include <cstddef>
#include <vector>

namespace elastictrain::peers {

Status PairAveraging::swap_models(bool contributes) {
  if (!reach_ || reach_of_ != seat_.generation) {
    if (auto status = learn_reach(); !status) return status;
  }
  const std::uint32_t partner = match_pairs(*reach_, course_.next_step())[seat_.rank];
  if (partner == seat_.rank) return {};
  if (auto status = models_.swap(*seat_.communicator, partner, contributes); !status) return status;
  models_.keep_correction(0.5F);
  return {};
}

void PairAveraging::take_read_model() {
  if (store_.take_model(memory_)) {
    models_.receive(memory_);
    models_.keep_correction(0.5F);
  }
  if (seat_.world_size() < 2) return;
  const auto others = seat_.world_size() - 1;
  const auto drawn = static_cast<std::uint32_t>((random_() ^ seat_.rank * 2'654'435'761U) % others);
  store_.read_model(drawn + (drawn >= seat_.rank ? 1 : 0), models_.model_floats());
}

void PairAveraging::publish_model() {
  models_.copy_models(memory_);
  store_.publish_model(memory_);
}

Status PairAveraging::learn_reach() {
  auto& communicator = *seat_.communicator;
  const std::uint32_t size = communicator.world_size();
  std::vector<std::byte> mine(Reach::row_bytes(size));
  for (std::uint32_t peer = 0; peer < size; ++peer) {
    if (communicator.reaches(peer)) mine[peer / 8] |= std::byte{1} << (peer % 8);
  }
  std::vector<std::byte> all(mine.size() * size);
  if (auto status = communicator.all_gather(mine, all); !status) return status;
  reach_.emplace(all, size);
  reach_of_ = seat_.generation;
  return {};
}

}  // namespace elastictrain::peers

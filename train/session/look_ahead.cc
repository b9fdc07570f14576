// The next steps' samples as they will be if nothing else happens.
#include <algorithm>
#include <utility>

#include "train/session/course.h"

namespace elastictrain::session {
namespace {

std::vector<std::uint32_t> counts_of(std::span<const state::WorkerShare> shares) {
  std::vector<std::uint32_t> counts;
  for (const auto& share : shares) counts.push_back(share.samples);
  return counts;
}

class Preview {
 public:
  Preview(const DataOptions& data, const state::Progress& progress)
      : data_(data), sampler_(progress.sampler), step_(progress.committed_step) {}

  bool is_over() const {
    if (data_.max_steps != 0 && step_ >= data_.max_steps) return true;
    return data_.sample_count != 0 && sampler_.epoch >= data_.epochs;
  }
  void pass(const state::Cut& cut, std::span<const state::Interval> uncounted = {}) {
    sampler_ = state::advance(sampler_, data_.sample_count, cut, uncounted);
    ++step_;
  }
  void skip_tail(std::span<const state::WorkerShare> shares) {
    if (data_.drop_last) sampler_ = state::without_tail(sampler_, data_.sample_count, counts_of(shares));
  }
  state::Cut cut(std::span<const state::WorkerShare> shares) const {
    return state::cut_step(sampler_, data_.sample_count, counts_of(shares), data_.min_local_samples);
  }
  void list(const state::Cut& cut, std::size_t rank, std::vector<std::uint64_t>& samples) {
    if (data_.sample_count == 0) return;
    const state::Permutation order(data_.sample_count, sampler_.seed, cut.epoch);
    for (const auto& [first, count] : cut.part(rank)) {
      for (std::uint64_t position = first; position < first + count; ++position) {
        samples.push_back(data_.shuffle ? order.at(position) : position);
      }
    }
  }

 private:
  const DataOptions& data_;
  state::SamplerState sampler_;
  Step step_;
};

// This worker's rank among the shares, if it has a part that counts.
std::optional<std::size_t> rank_among(std::span<const state::WorkerShare> shares, WorkerId self) {
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    if (shares[rank].worker == self && !shares[rank].is_lost) return rank;
  }
  return std::nullopt;
}

}  // namespace

LookAhead Course::look_ahead(WorkerId self, std::uint32_t batches, const StepDivision* open,
                             std::span<const std::vector<state::WorkerShare>> upcoming) const {
  Preview preview(data_, progress_);
  LookAhead ahead;
  if (data_ended_at_ != 0) return ahead;
  if (open != nullptr) preview.pass(open->cut, open->uncounted);
  std::size_t next = 0;
  const auto* shares = open == nullptr ? &next_shares_ : &upcoming[0];
  while (ahead.batch_sizes.size() < batches) {
    preview.skip_tail(*shares);
    if (preview.is_over()) break;
    const auto cut = preview.cut(*shares);
    const auto rank = rank_among(*shares, self);
    if (rank) preview.list(cut, *rank, ahead.samples);
    ahead.batch_sizes.push_back(rank ? cut.count(*rank) : 0);
    preview.pass(cut);
    if (shares == &next_shares_) {
      shares = &upcoming[0];
    } else {
      next = std::min(next + 1, upcoming.size() - 1);
      shares = &upcoming[next];
    }
  }
  return ahead;
}

}  // namespace elastictrain::session

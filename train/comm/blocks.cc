#include "train/comm/blocks.h"

#include <algorithm>

#include "train/comm/kernels.h"

namespace elastictrain::comm {
namespace {

constexpr std::size_t kNormFloats = 4096;

}  // namespace

double data_square_sum(const ReduceVector& vector) {
  double sum = 0;
  vector.for_runs(0, vector.size(), [&](const ReduceVector::Run& run, std::size_t) {
    if (run.is_data) sum += square_sum(run.values, run.count);
  });
  return sum;
}

ReduceWork::ReduceWork(const ReduceVector& vector, std::size_t parts, ReduceStats* stats)
    : vector_(vector), bytes_(vector.bytes()), parts_(parts), stats_(stats), norms_(parts), touched_(parts) {
  ET_CHECK(parts_ > 0, "a sum is made in at least one part");
}

std::span<std::byte> ReduceWork::memory(std::size_t block, std::size_t offset, std::size_t max) {
  return bytes_.run(begin(block) * sizeof(float) + offset, std::min(max, block_size(block) - offset));
}

void ReduceWork::prepare_own(std::size_t block, std::size_t end) {
  const std::size_t target = (end + sizeof(float) - 1) / sizeof(float);
  if (target <= touched_[block]) return;
  vector_.for_runs(begin(block) + touched_[block], begin(block) + target, [&](const auto& run, std::size_t) {
    note_input(run);
    scale_in_place(run.values, run.count, run.scale);
  });
  touched_[block] = target;
}

// If a peer's values were added before, the rank's own values are scaled already.
void ReduceWork::reduce(std::size_t block, std::size_t offset, std::span<const std::byte> incoming) {
  const std::size_t first = offset / sizeof(float);
  const std::size_t last = first + incoming.size() / sizeof(float);
  const bool is_first_peer = last > touched_[block];
  const auto* other = reinterpret_cast<const float*>(incoming.data());
  vector_.for_runs(begin(block) + first, begin(block) + last, [&](const auto& run, std::size_t at) {
    if (is_first_peer) note_input(run);
    scale_add(run.values, other + at, run.count, is_first_peer ? run.scale : 1.0F);
  });
  touched_[block] = std::max(touched_[block], last);
}

void ReduceWork::finished(std::size_t block, std::size_t end) {
  if (stats_ == nullptr) return;
  BlockNorm& norm = norms_[block];
  const std::size_t available = end / sizeof(float);
  while (norm.done < available && (available == count(block) || available - norm.done >= kNormFloats)) {
    const std::size_t length = std::min(kNormFloats, available - norm.done);
    vector_.for_runs(begin(block) + norm.done, begin(block) + norm.done + length, [&](const auto& run, std::size_t) {
      if (run.is_data) norm.sum += square_sum(run.values, run.count);
    });
    norm.done += length;
  }
}

void ReduceWork::keep_rest() const {
  for (std::size_t block = 0; block < parts_; ++block) {
    vector_.keep(begin(block) + touched_[block], begin(block) + count(block));
  }
}

void ReduceWork::collect() {
  if (stats_ == nullptr) return;
  for (const auto& norm : norms_) stats_->reduced_square_sum += norm.sum;
}

void ReduceWork::note_input(const ReduceVector::Run& run) {
  run.keep_input();
  if (stats_ != nullptr && run.is_data) stats_->local_square_sum += square_sum(run.values, run.count);
}

}  // namespace elastictrain::comm

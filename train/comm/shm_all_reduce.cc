// The large all-reduce of ShmGroup: every rank sums one slice of every chunk.
#include <algorithm>
#include <cstring>

#include "train/comm/kernels.h"
#include "train/comm/shm_group.h"

namespace elastictrain::comm {
namespace {

constexpr std::size_t kChunkFloats = ShmRegion::kChunkBytes / sizeof(float);
// Small enough for the first-level cache, so that a slice is summed and stored in one pass over memory.
constexpr std::size_t kBlockFloats = 2048;

}  // namespace

ShmGroup::Range ShmGroup::slice_of(Range range, std::size_t rank) const {
  const std::size_t length = range.end - range.begin;
  return {range.begin + part_begin(length, ranks_, rank), range.begin + part_begin(length, ranks_, rank + 1)};
}

Status ShmGroup::all_reduce_large(const ReduceVector& vector, ReduceStats* stats) {
  Reach reach;
  auto status = reduce_chunks(vector, stats, reach);
  if (!status) keep_rest(vector, reach);
  return status;
}

// Everything that was written or summed has been kept before.
void ShmGroup::keep_rest(const ReduceVector& vector, const Reach& reach) const {
  for (std::size_t begin = reach.summed; begin < reach.put; begin += kChunkFloats) {
    const Range own = slice_of({begin, std::min(reach.put, begin + kChunkFloats)}, local_);
    vector.keep(own.begin, own.end);
  }
  vector.keep(reach.put, vector.size());
}

// The input of chunk k+1 is written before the wait for the sums of chunk k, so that no rank idles between the two.
Status ShmGroup::reduce_chunks(const ReduceVector& vector, ReduceStats* stats, Reach& reach) {
  const std::size_t total = vector.size();
  const auto range_at = [&](std::size_t begin) { return Range{begin, std::min(total, begin + kChunkFloats)}; };
  put_slices(vector, range_at(0), chunk_, stats);
  reach.put = range_at(0).end;
  enter(chunk_);
  for (std::size_t begin = 0; begin < total; begin += kChunkFloats) {
    if (auto status = await_all_entered(); !status) return status;
    reduce_own_slice(vector, range_at(begin), stats);
    reach.summed = range_at(begin).end;
    publish(region_.control(local_).reduced, static_cast<std::uint32_t>(chunk_ + 1));
    if (begin + kChunkFloats < total) {
      put_slices(vector, range_at(begin + kChunkFloats), chunk_ + 1, stats);
      reach.put = range_at(begin + kChunkFloats).end;
      enter(chunk_ + 1);
    }
    if (auto status = fetch_slices(vector, range_at(begin), stats); !status) return status;
    ++chunk_;
  }
  return {};
}

void ShmGroup::put_slices(const ReduceVector& vector, Range range, std::uint64_t chunk, ReduceStats* stats) {
  float* buffer = floats(local_, chunk);
  const Range own = slice_of(range, local_);
  const auto put = [&](std::size_t begin, std::size_t end) {
    vector.for_runs(begin, end, [&](const auto& run, std::size_t offset) {
      run.keep_input();
      if (stats != nullptr && run.is_data) stats->local_square_sum += square_sum(run.values, run.count);
      copy_scaled(buffer + (begin - range.begin) + offset, run.values, run.count, run.scale);
    });
  };
  put(range.begin, own.begin);
  put(own.end, range.end);
}

void ShmGroup::reduce_own_slice(const ReduceVector& vector, Range range, ReduceStats* stats) {
  const Range own = slice_of(range, local_);
  for (std::size_t begin = own.begin; begin < own.end; begin += kBlockFloats) {
    const std::size_t end = std::min(own.end, begin + kBlockFloats);
    vector.for_runs(begin, end, [&](const auto& run, std::size_t run_offset) {
      const std::size_t offset = begin - range.begin + run_offset;
      run.keep_input();
      if (stats != nullptr && run.is_data) stats->local_square_sum += square_sum(run.values, run.count);
      float scale = run.scale;
      for (std::size_t peer = 0; peer < ranks_; ++peer) {
        if (peer == local_) continue;
        scale_add(run.values, floats(peer, chunk_) + offset, run.count, scale);
        scale = 1.0F;
      }
      std::memcpy(floats(local_, chunk_) + offset, run.values, run.count * sizeof(float));
    });
  }
}

// The square sum goes over all slices in rank order, so that it is the same number on every rank.
Status ShmGroup::fetch_slices(const ReduceVector& vector, Range range, ReduceStats* stats) {
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    const Range slice = slice_of(range, rank);
    if (rank != local_) {
      auto status = wait_for(region_.control(rank).reduced, static_cast<std::uint32_t>(chunk_ + 1), rank);
      if (!status) return status;
    }
    vector.for_runs(slice.begin, slice.end, [&](const auto& run, std::size_t offset) {
      const float* sum = floats(rank, chunk_) + (slice.begin - range.begin) + offset;
      if (rank != local_) std::memcpy(run.values, sum, run.count * sizeof(float));
      if (stats != nullptr && run.is_data) stats->reduced_square_sum += square_sum(run.values, run.count);
    });
  }
  return {};
}

}  // namespace elastictrain::comm

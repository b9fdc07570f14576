// Purpose: divides a flat gradient into buckets that are reduced one after the other, from the last layer to the first,
// so that the first all-reduces run while earlier layers still compute. The division depends on the model alone: every
// worker reduces the same buckets in the same order, including one with an empty batch.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace elastictrain::train {

// A part of the flat buffers: [begin, begin + count).
struct Range {
  std::size_t begin = 0;
  std::size_t count = 0;
  bool operator==(const Range&) const = default;
};

using BucketReady = std::function<void(Range bucket)>;

// Joins neighbouring layers until a bucket has `min_count` elements, because small messages cost more than overlap
// saves. `layers` are in the order of the flat buffer and cover it; the buckets are in the order of the reduction.
inline std::vector<Range> plan_buckets(std::span<const Range> layers, std::size_t min_count) {
  std::vector<Range> buckets;
  Range open;
  for (std::size_t i = layers.size(); i-- > 0;) {
    open = {layers[i].begin, open.count + layers[i].count};
    if (open.count < min_count && i > 0) continue;
    buckets.push_back(open);
    open = {};
  }
  return buckets;
}

// Passes a bucket on as soon as its first layer, whose gradient is final last, is done.
class BucketProgress {
 public:
  BucketProgress(std::span<const Range> buckets, const BucketReady& ready) : buckets_(buckets), ready_(ready) {}

  void layer_done(Range layer) {
    if (next_ == buckets_.size() || buckets_[next_].begin != layer.begin) return;
    ready_(buckets_[next_++]);
  }

 private:
  std::span<const Range> buckets_;
  const BucketReady& ready_;
  std::size_t next_ = 0;
};

}  // namespace elastictrain::train

// Purpose: how a flat gradient is cut into buckets that are reduced one after the other, from the last layer to the
// first, so that the first all-reduces run while earlier layers still compute. The cut depends on the model alone:
// every worker reduces the same buckets in the same order, also one with an empty batch.
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

// Joins neighbouring layers until a bucket has `least_count` elements: small messages cost more than they overlap.
// `layers` are in the order of the flat buffer and cover it; the buckets come in the order of the reduction.
inline std::vector<Range> plan_buckets(std::span<const Range> layers, std::size_t least_count) {
  std::vector<Range> buckets;
  Range open;
  for (std::size_t i = layers.size(); i-- > 0;) {
    open = {layers[i].begin, open.count + layers[i].count};
    if (open.count < least_count && i > 0) continue;
    buckets.push_back(open);
    open = {};
  }
  return buckets;
}

// Hands out a bucket as soon as its first layer, which is final last, is done.
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

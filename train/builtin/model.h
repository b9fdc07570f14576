// Purpose: the interface of a model for the training loop: parameters, gradient and its buckets, a pass, and a
// score.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/builtin/options.h"

// Divides a flat gradient into buckets that are reduced one after the other, from the last layer to the first,
// so that the first all-reduces run while earlier layers still compute. The division depends on the model alone: every
// worker reduces the same buckets in the same order, including one with an empty batch.

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

// The quality of predictions.

struct Score {
  double loss = 0;  // mean
  std::uint64_t correct = 0;
  std::uint64_t count = 0;

  double accuracy() const { return count == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(count); }

  void add(const Score& other) {
    if (other.count == 0) return;
    const auto mine = static_cast<double>(count);
    const auto theirs = static_cast<double>(other.count);
    loss = (loss * mine + other.loss * theirs) / (mine + theirs);
    correct += other.correct;
    count += other.count;
  }
};

// The interface of a model for the training loop: parameters and gradient as flat buffers, a pass over some
// samples, and a score on held-out data.
//
// Thread: the training thread; evaluate() on any thread, in parallel with compute().

class Model {
 public:
  virtual ~Model() = default;

  // The buffers keep their address.
  std::span<float> parameters() { return parameters_; }
  std::span<float> gradient() { return gradient_; }
  std::span<const Range> buckets() const { return buckets_; }

  virtual std::uint64_t sample_count() const = 0;

  // Writes the mean gradient over the samples (at least one) to gradient(), and passes each bucket to `ready` in order
  // as soon as it is final. Returns the mean loss. Does not change the parameters.
  virtual double compute(std::span<const std::uint64_t> samples, const BucketReady& ready) = 0;

  virtual bool has_held_out_data() const = 0;
  // The score on the held-out data with the given parameters.
  virtual Score evaluate(std::span<const float> parameters) const = 0;

  // Called once this worker is a member. Only the synthetic model depends on the worker.
  virtual void set_worker(std::uint64_t /*worker_id*/) {}
  // Called while the next batch is awaited, and after each exchange with this number of workers. Only the synthetic
  // model takes time there.
  virtual void load_data() {}
  virtual void exchanged(std::uint32_t /*workers*/) {}

 protected:
  void allocate(std::size_t count, std::vector<Range> buckets) {
    parameters_.resize(count);
    gradient_.resize(count);
    buckets_ = std::move(buckets);
  }

 private:
  std::vector<float> parameters_;
  std::vector<float> gradient_;
  std::vector<Range> buckets_;
};

// Loads the data and initializes the parameters from the seed.
Result<std::unique_ptr<Model>> make_model(const TrainerOptions& options);

}  // namespace elastictrain::train

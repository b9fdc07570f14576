// Purpose: the interface of a model for the training loop: parameters and gradient as flat buffers, a pass over some
// samples, and a score on held-out data.
//
// Thread: the training thread; evaluate() on any thread, in parallel with compute().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/builtin/buckets.h"
#include "train/builtin/options.h"
#include "train/builtin/score.h"

namespace elastictrain::train {

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

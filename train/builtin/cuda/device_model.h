// Purpose: a model whose data, parameters and gradient are in GPU memory. It is made from a model on the host, with its
// data and initial parameters, and computes the same, up to the order of sums in matrix products.
//
// Ownership: borrows the engine and the host's model, which still scores held-out data; both must outlive it. Thread,
// failure: as Engine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "train/builtin/cuda/engine.h"
#include "train/builtin/model.h"
#include "train/builtin/options.h"

namespace elastictrain::train {

class DeviceModel {
 public:
  virtual ~DeviceModel() = default;

  // In device memory; the addresses do not change.
  float* parameters() const { return parameters_.as<float>(); }
  float* gradient() const { return gradient_.as<float>(); }
  std::size_t count() const { return parameters_.bytes() / sizeof(float); }

  // Queues the computation of the mean gradient over the samples (at least one) in the stream. Passes each bucket to
  // `ready` when the work for it is queued.
  virtual void compute(std::span<const std::uint64_t> samples, const BucketReady& ready) = 0;

  // The mean loss of the last compute(). Waits until it is known.
  virtual double loss() = 0;

 protected:
  DeviceModel(Engine& engine, Model& host);

 private:
  device::DeviceMemory parameters_;
  device::DeviceMemory gradient_;
};

// `host` was made with the same options.
std::unique_ptr<DeviceModel> make_device_model(Engine& engine, const TrainerOptions& options, Model& host);

}  // namespace elastictrain::train

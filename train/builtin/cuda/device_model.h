// Purpose: a model whose data, parameters and gradient lie in a GPU's memory: made from one on the host, with its data
// and first parameters, and computing what that one computes, up to the order of sums in matrix products.
//
// Ownership: borrows the engine and the host's model, which goes on to score held-out data; both must outlive it.
// Thread, failure: as Engine.
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

  // In the device's memory; the addresses stay.
  float* parameters() const { return parameters_.as<float>(); }
  float* gradient() const { return gradient_.as<float>(); }
  std::size_t count() const { return parameters_.bytes() / sizeof(float); }

  // Puts the mean gradient over the samples, of which there is at least one, into the stream; tells `ready` each bucket
  // when what makes it is in there.
  virtual void compute(std::span<const std::uint64_t> samples, const BucketReady& ready) = 0;

  // The mean loss of the last compute(): waits until it is known.
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

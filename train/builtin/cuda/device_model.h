// Purpose: models whose data, parameters and gradient are in GPU memory: the interface, and the counterpart of each
// model of the host.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "train/builtin/cuda/dense_pass.h"
#include "train/builtin/cuda/engine.h"
#include "train/builtin/dense_models.h"
#include "train/builtin/model.h"
#include "train/builtin/model_synthetic.h"
#include "train/builtin/options.h"

// A model whose data, parameters and gradient are in GPU memory. It is made from a model on the host, with its
// data and initial parameters, and computes the same, up to the order of sums in matrix products.
//
// Ownership: borrows the engine and the host's model, which still scores held-out data; both must outlive it. Thread,
// failure: as Engine.

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

// MlpModel on a GPU. The data set is uploaded once, images as bytes. A batch is gathered on the device by its
// indices. See device_model.h for ownership, thread and failure.

class DeviceMlp final : public DeviceModel {
 public:
  DeviceMlp(Engine& engine, MlpModel& host);

  void compute(std::span<const std::uint64_t> samples, const BucketReady& ready) override;
  double loss() override { return pass_.mean_loss(); }

 private:
  void gather(std::span<const std::uint64_t> samples);

  Engine& engine_;
  MlpModel& host_;
  DensePass pass_;
  device::DeviceMemory rows_;
  device::DeviceMemory labels_;
  device::DeviceMemory centre_;
  device::DeviceMemory factor_;
};

// CharLmModel on a GPU, with the text in device memory. See device_model.h for ownership, thread and failure.

class DeviceCharLm final : public DeviceModel {
 public:
  DeviceCharLm(Engine& engine, CharLmModel& host);

  void compute(std::span<const std::uint64_t> samples, const BucketReady& ready) override;
  double loss() override { return pass_.mean_loss(); }

 private:
  // Embeds the blocks' contexts into the input of the layers. Returns the number of characters.
  std::size_t load_blocks(std::span<const std::uint64_t> blocks);

  Engine& engine_;
  CharLmModel& host_;
  DensePass pass_;
  device::DeviceMemory text_;
  device::DeviceMemory tokens_;
  device::DeviceMemory input_gradient_;
};

// SyntheticModel with its parameters and gradient on a GPU. Its computation takes the same time as on the
// host, and takes it there. See device_model.h for ownership, thread and failure.

class DeviceSynthetic final : public DeviceModel {
 public:
  DeviceSynthetic(Engine& engine, SyntheticModel& host);

  void compute(std::span<const std::uint64_t> samples, const BucketReady& ready) override;
  double loss() override { return SyntheticModel::loss_of(first_parameters_.wait<float>()); }

 private:
  Engine& engine_;
  SyntheticModel& host_;
  Readback first_parameters_;
};

}  // namespace elastictrain::train

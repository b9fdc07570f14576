// Purpose: MlpModel on a GPU. The data set is uploaded once, images as bytes. A batch is gathered on the device by its
// indices. See device_model.h for ownership, thread and failure.
#pragma once

#include "train/builtin/cuda/dense_pass.h"
#include "train/builtin/cuda/device_model.h"
#include "train/builtin/model_mlp.h"

namespace elastictrain::train {

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

}  // namespace elastictrain::train

// Purpose: SyntheticModel with its parameters and gradient on a GPU. Its computation takes the same time as on the
// host, and takes it there. See device_model.h for ownership, thread and failure.
#pragma once

#include "train/builtin/cuda/device_model.h"
#include "train/builtin/model_synthetic.h"

namespace elastictrain::train {

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

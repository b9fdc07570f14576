// Purpose: CharLmModel on a GPU, with the text in device memory. See device_model.h for ownership, thread and failure.
#pragma once

#include "train/builtin/cuda/dense_pass.h"
#include "train/builtin/cuda/device_model.h"
#include "train/builtin/model_char_lm.h"

namespace elastictrain::train {

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

}  // namespace elastictrain::train

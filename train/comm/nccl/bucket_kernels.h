// Purpose: the kernels that process a bucket on its own device before and after the sum: they keep, scale and measure
// it, in one pass each. No kernel runs if none of this is requested.
//
// Ownership: one communicator's. Thread: the communicator's. Failure: as CudaLibrary::check.
#pragma once

#include <memory>

#include "train/comm/communicator.h"
#include "train/comm/device_interfaces.h"
#include "train/device/kernel_module.h"
#include "train/device/pinned_memory.h"

namespace elastictrain::comm {

class BucketKernels {
 public:
  static Result<std::unique_ptr<BucketKernels>> create(const std::shared_ptr<device::Device>& device);
  ~BucketKernels();

  // In the caller's stream, so that the input is kept whatever the result of the sum.
  Status prepare(const DeviceReduce& reduce) const;
  // After the sum, in the stream that makes it.
  Status measure(const DeviceReduce& reduce, device::CudaStream stream) const;
  // Valid once both have finished.
  void read_norms(ReduceStats& stats) const;

 private:
  BucketKernels(int ordinal, device::PinnedMemory sums) : ordinal_(ordinal), sums_(std::move(sums)) {}

  const int ordinal_;
  device::PinnedMemory sums_;  // written by the kernels: one number per block, before and after
  const device::KernelModule* module_ = nullptr;
  device::CudaFunction prepare_ = nullptr;
  device::CudaFunction square_sum_ = nullptr;
};

}  // namespace elastictrain::comm

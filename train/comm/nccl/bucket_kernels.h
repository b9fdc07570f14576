// Purpose: what happens to a bucket on its own device before and after it is summed: kept, scaled, measured; one pass
// each, nothing where nothing is asked for.
//
// Ownership: one communicator's. Thread: the communicator's. Failure: as CudaLibrary::check.
#pragma once

#include <memory>

#include "train/comm/communicator.h"
#include "train/device/kernel_module.h"
#include "train/device/pinned_memory.h"

namespace elastictrain::comm {

class BucketKernels {
 public:
  static Result<std::unique_ptr<BucketKernels>> create(const std::shared_ptr<device::Device>& device);
  ~BucketKernels();

  // Into the caller's stream, so that what is kept is there whatever becomes of the sum.
  Status prepare(const DeviceReduce& reduce) const;
  // Behind the sum, in the stream that makes it.
  Status measure(const DeviceReduce& reduce, device::CudaStream stream) const;
  // Once both are done.
  void read_norms(ReduceStats& stats) const;

 private:
  BucketKernels(int ordinal, device::PinnedMemory sums) : ordinal_(ordinal), sums_(std::move(sums)) {}

  const int ordinal_;
  device::PinnedMemory sums_;  // the kernels write there themselves: one number a block, before and after
  const device::KernelModule* module_ = nullptr;
  device::CudaFunction prepare_ = nullptr;
  device::CudaFunction square_sum_ = nullptr;
};

}  // namespace elastictrain::comm

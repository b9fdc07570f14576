// Purpose: the kernels that process a bucket on its own device before and after the sum: they keep, scale and measure
// it, in one pass each. No kernel runs if none of this is requested.
//
// Ownership: one communicator's. Thread: the communicator's. Failure: as CudaLibrary::check.
#pragma once

#include <memory>
#include <vector>

#include "train/comm/communicator.h"
#include "train/comm/device_interfaces.h"
#include "train/device/device_memory.h"
#include "train/device/kernel_module.h"

namespace elastictrain::comm {

// Ranks whose weights a kernel takes.
inline constexpr std::uint32_t kMostExchanging = 16;

inline bool is_exchanged(const DeviceReduce& reduce) {
  return !reduce.weights.empty();
}
// Where the input of a gradient in 16 bits is, if there is one.
inline void* narrow_input(const DeviceReduce& reduce) {
  return reduce.input == DeviceReduce::Input::kKept ? reduce.keep : reduce.narrow;
}

// Whether a gradient is its own sum already, where there is no other rank, and nothing is kept or measured of it.
bool is_own_sum(const DeviceReduce& reduce);

class BucketKernels {
 public:
  static Result<std::unique_ptr<BucketKernels>> create(const std::shared_ptr<device::Device>& device);
  ~BucketKernels();

  // Memory for the norms of the `index`-th sum that runs at the same time as others.
  Status reserve(std::size_t index);
  // A gradient in 16 bits, kept and widened before prepare(), and rounded after the sum. Nothing for others.
  Status keep_narrow(const DeviceReduce& reduce, device::CudaStream stream) const;
  Status widen(const DeviceReduce& reduce, device::CudaStream stream) const;
  Status round(const DeviceReduce& reduce, device::CudaStream stream) const;
  // Before the sum. measure_input(): the norm of a gradient that is exchanged in 16 bits.
  Status measure_input(const DeviceReduce& reduce, std::size_t index, device::CudaStream stream) const;
  Status prepare(const DeviceReduce& reduce, std::size_t index, device::CudaStream stream) const;
  // In place of NCCL's sum: this rank's shard of an exchanged gradient, of what all ranks have sent.
  Status sum_parts(const DeviceReduce& reduce, std::uint32_t rank, device::CudaStream stream) const;
  // After the sum, in the stream that makes it.
  Status measure(const DeviceReduce& reduce, std::size_t index, device::CudaStream stream) const;
  // Valid once both have finished.
  void add_norms(std::size_t index, ReduceStats& stats) const;

 private:
  explicit BucketKernels(std::shared_ptr<device::Device> device) : device_(std::move(device)) {}
  double* sums(std::size_t index) const;
  Status measure_narrow(const DeviceReduce& reduce, const void* values, double* into, device::CudaStream stream) const;

  const std::shared_ptr<device::Device> device_;
  // Written by the kernels, for several buckets each: one number per block, before and after the sum.
  std::vector<device::PinnedMemory> sums_;
  const device::KernelModule* module_ = nullptr;
  device::CudaFunction prepare_ = nullptr;
  device::CudaFunction square_sum_ = nullptr;
  device::CudaFunction widen_ = nullptr;
  device::CudaFunction round_ = nullptr;
  device::CudaFunction sum_parts_ = nullptr;
  device::CudaFunction narrow_square_sum_ = nullptr;
};

}  // namespace elastictrain::comm

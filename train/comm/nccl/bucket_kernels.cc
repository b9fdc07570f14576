#include "train/comm/nccl/bucket_kernels.h"

#include <map>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

namespace elastictrain::comm {
namespace {

using device::kKernelBlocks;
using device::PinnedMemory;

// Pinning and unpinning wait for the device, so generations pass the memory on.
struct SpareSums {
  std::mutex mutex;
  std::map<int, std::vector<PinnedMemory>> by_device;
};

SpareSums& spare_sums() {
  static auto* spare = new SpareSums;
  return *spare;
}

Result<PinnedMemory> take_sums(const std::shared_ptr<device::Device>& device) {
  {
    const std::lock_guard lock(spare_sums().mutex);
    auto& spare = spare_sums().by_device[device->ordinal()];
    if (!spare.empty()) {
      auto sums = std::move(spare.back());
      spare.pop_back();
      return sums;
    }
  }
  return PinnedMemory::allocate(device, 2 * kKernelBlocks * sizeof(double));
}

bool changes_nothing(const DeviceReduce& reduce) {
  return reduce.input == DeviceReduce::Input::kKeep && reduce.keep == nullptr && reduce.scale == 1.0F &&
         !reduce.want_norms;
}

}  // namespace

Result<std::unique_ptr<BucketKernels>> BucketKernels::create(const std::shared_ptr<device::Device>& device) {
  const auto module = device::KernelModule::get(device, device::kCommunicatorKernels);
  if (!module) return module.error();
  const auto prepare = (*module)->function("et_prepare");
  if (!prepare) return prepare.error();
  const auto square_sum = (*module)->function("et_square_sum");
  if (!square_sum) return square_sum.error();
  auto sums = take_sums(device);
  if (!sums) return sums.error();
  std::unique_ptr<BucketKernels> kernels(new BucketKernels(device->ordinal(), std::move(*sums)));
  kernels->module_ = *module;
  kernels->prepare_ = *prepare;
  kernels->square_sum_ = *square_sum;
  return kernels;
}

BucketKernels::~BucketKernels() {
  const std::lock_guard lock(spare_sums().mutex);
  spare_sums().by_device[ordinal_].push_back(std::move(sums_));
}

Status BucketKernels::prepare(const DeviceReduce& reduce) const {
  if (changes_nothing(reduce)) return {};
  const int input = static_cast<int>(reduce.input);
  return module_->launch(prepare_, reduce.stream, reduce.data, reduce.keep,
                         static_cast<unsigned long long>(reduce.count), reduce.scale, input, sums_.as<double>());
}

Status BucketKernels::measure(const DeviceReduce& reduce, device::CudaStream stream) const {
  if (!reduce.want_norms) return {};
  return module_->launch(square_sum_, stream, static_cast<const float*>(reduce.data),
                         static_cast<unsigned long long>(reduce.count), sums_.as<double>() + kKernelBlocks);
}

void BucketKernels::read_norms(ReduceStats& stats) const {
  const double* sums = sums_.as<double>();
  stats.local_square_sum = std::accumulate(sums, sums + kKernelBlocks, 0.0);
  stats.reduced_square_sum = std::accumulate(sums + kKernelBlocks, sums + 2 * kKernelBlocks, 0.0);
}

}  // namespace elastictrain::comm

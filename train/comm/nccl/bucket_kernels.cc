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

constexpr std::size_t kSumsOfBucket = std::size_t{2} * kKernelBlocks;
constexpr std::size_t kBucketsTogether = 32;

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
  return PinnedMemory::allocate(device, kBucketsTogether * kSumsOfBucket * sizeof(double));
}

int is_half(const DeviceReduce& reduce) {
  return reduce.element == Element::kFloat16 ? 1 : 0;
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
  std::unique_ptr<BucketKernels> kernels(new BucketKernels(device));
  if (auto reserved = kernels->reserve(0); !reserved) return reserved.error();
  const auto widen = (*module)->function("et_widen");
  if (!widen) return widen.error();
  const auto round = (*module)->function("et_round");
  if (!round) return round.error();
  kernels->widen_ = *widen;
  kernels->round_ = *round;
  kernels->module_ = *module;
  kernels->prepare_ = *prepare;
  kernels->square_sum_ = *square_sum;
  return kernels;
}

BucketKernels::~BucketKernels() {
  const std::lock_guard lock(spare_sums().mutex);
  auto& spare = spare_sums().by_device[device_->ordinal()];
  for (auto& sums : sums_) spare.push_back(std::move(sums));
}

Status BucketKernels::reserve(std::size_t index) {
  while (sums_.size() * kBucketsTogether <= index) {
    auto sums = take_sums(device_);
    if (!sums) return sums.error();
    sums_.push_back(std::move(*sums));
  }
  return {};
}

double* BucketKernels::sums(std::size_t index) const {
  return sums_[index / kBucketsTogether].as<double>() + index % kBucketsTogether * kSumsOfBucket;
}

Status BucketKernels::widen(const DeviceReduce& reduce, device::CudaStream stream) const {
  if (reduce.narrow == nullptr || reduce.input != DeviceReduce::Input::kKeep) return {};
  return module_->launch(widen_, stream, static_cast<const unsigned short*>(reduce.narrow), reduce.data,
                         static_cast<unsigned long long>(reduce.count), is_half(reduce));
}

Status BucketKernels::round(const DeviceReduce& reduce, device::CudaStream stream) const {
  if (reduce.narrow == nullptr) return {};
  return module_->launch(round_, stream, static_cast<const float*>(reduce.data),
                         static_cast<unsigned short*>(reduce.narrow), static_cast<unsigned long long>(reduce.count),
                         is_half(reduce));
}

Status BucketKernels::prepare(const DeviceReduce& reduce, std::size_t index, device::CudaStream stream) const {
  if (changes_nothing(reduce)) return {};
  const int input = static_cast<int>(reduce.input);
  return module_->launch(prepare_, stream, reduce.data, reduce.keep, static_cast<unsigned long long>(reduce.count),
                         reduce.scale, input, sums(index));
}

Status BucketKernels::measure(const DeviceReduce& reduce, std::size_t index, device::CudaStream stream) const {
  if (!reduce.want_norms) return {};
  return module_->launch(square_sum_, stream, static_cast<const float*>(reduce.data),
                         static_cast<unsigned long long>(reduce.count), sums(index) + kKernelBlocks);
}

void BucketKernels::add_norms(std::size_t index, ReduceStats& stats) const {
  const double* const before = sums(index);
  const double* const after = before + kKernelBlocks;
  stats.local_square_sum += std::accumulate(before, after, 0.0);
  stats.reduced_square_sum += std::accumulate(after, after + kKernelBlocks, 0.0);
}

}  // namespace elastictrain::comm

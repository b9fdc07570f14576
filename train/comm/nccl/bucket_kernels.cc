#include "train/comm/nccl/bucket_kernels.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

namespace elastictrain::comm {
namespace {

using device::kKernelBlocks;
using Input = DeviceReduce::Input;
using device::PinnedMemory;

constexpr std::size_t kSumsOfBucket = std::size_t{2} * kKernelBlocks;
constexpr std::size_t kBucketsTogether = 32;

// As et_weights of the kernels.
struct Weights {
  float of[kMostExchanging];
};

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

// `data` holds the values of a gradient in 16 bits, whether they were kept or not.
bool prepares_nothing(const DeviceReduce& reduce) {
  const bool is_there = reduce.narrow != nullptr ? reduce.input != Input::kNothing
                                                 : reduce.input == Input::kKeep && reduce.keep == nullptr;
  return is_there && reduce.scale == 1.0F && !reduce.want_norms;
}

}  // namespace

bool is_own_sum(const DeviceReduce& reduce) {
  const float weight = is_exchanged(reduce) ? reduce.weights.front() : reduce.scale;
  const bool stays = reduce.narrow == nullptr || is_exchanged(reduce);
  return stays && reduce.input == Input::kKeep && reduce.keep == nullptr && weight == 1.0F && !reduce.want_norms;
}

Result<std::unique_ptr<BucketKernels>> BucketKernels::create(const std::shared_ptr<device::Device>& device) {
  const auto module = device::KernelModule::get(device, device::kCommunicatorKernels);
  if (!module) return module.error();
  std::unique_ptr<BucketKernels> kernels(new BucketKernels(device));
  if (auto reserved = kernels->reserve(0); !reserved) return reserved.error();
  kernels->module_ = *module;
  const std::pair<const char*, device::CudaFunction*> functions[] = {
      {"et_prepare", &kernels->prepare_},     {"et_square_sum", &kernels->square_sum_},
      {"et_widen", &kernels->widen_},         {"et_round", &kernels->round_},
      {"et_sum_parts", &kernels->sum_parts_}, {"et_narrow_square_sum", &kernels->narrow_square_sum_}};
  for (const auto& [name, into] : functions) {
    const auto found = (*module)->function(name);
    if (!found) return found.error();
    *into = *found;
  }
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

Status BucketKernels::keep_narrow(const DeviceReduce& reduce, device::CudaStream stream) const {
  if (reduce.narrow == nullptr || reduce.input != Input::kKeep || reduce.keep == nullptr) return {};
  const device::Device::Scope scope(*device_);
  const auto& cuda = device_->cuda();
  const auto code = cuda.copy_on_device(reinterpret_cast<device::DevicePointer>(reduce.keep),
                                        reinterpret_cast<device::DevicePointer>(reduce.narrow),
                                        reduce.count * sizeof(std::uint16_t), stream);
  return cuda.check(code, "keep a gradient of 16 bits");
}

Status BucketKernels::widen(const DeviceReduce& reduce, device::CudaStream stream) const {
  if (reduce.narrow == nullptr || reduce.input == Input::kNothing) return {};
  return module_->launch(widen_, stream, static_cast<const unsigned short*>(narrow_input(reduce)), reduce.data,
                         static_cast<unsigned long long>(reduce.count), is_half(reduce));
}

Status BucketKernels::round(const DeviceReduce& reduce, device::CudaStream stream) const {
  if (reduce.narrow == nullptr || is_exchanged(reduce)) return {};
  return module_->launch(round_, stream, static_cast<const float*>(reduce.data),
                         static_cast<unsigned short*>(reduce.narrow), static_cast<unsigned long long>(reduce.count),
                         is_half(reduce));
}

Status BucketKernels::measure_input(const DeviceReduce& reduce, std::size_t index, device::CudaStream stream) const {
  if (!reduce.want_norms) return {};
  if (reduce.input != Input::kNothing) return measure_narrow(reduce, narrow_input(reduce), sums(index), stream);
  std::fill_n(sums(index), kKernelBlocks, 0.0);
  return {};
}

Status BucketKernels::measure_narrow(const DeviceReduce& reduce, const void* values, double* into,
                                     device::CudaStream stream) const {
  return module_->launch(narrow_square_sum_, stream, static_cast<const unsigned short*>(values),
                         static_cast<unsigned long long>(reduce.count), is_half(reduce), into);
}

Status BucketKernels::prepare(const DeviceReduce& reduce, std::size_t index, device::CudaStream stream) const {
  if (prepares_nothing(reduce)) return {};
  const bool is_wide = reduce.narrow == nullptr;
  float* const keep = is_wide ? static_cast<float*>(reduce.keep) : nullptr;
  const Input input = is_wide || reduce.input == Input::kNothing ? reduce.input : Input::kKeep;
  return module_->launch(prepare_, stream, reduce.data, keep, static_cast<unsigned long long>(reduce.count),
                         reduce.scale, static_cast<int>(input), sums(index));
}

Status BucketKernels::sum_parts(const DeviceReduce& reduce, std::uint32_t rank, device::CudaStream stream) const {
  const auto ranks = static_cast<std::uint32_t>(reduce.weights.size());
  const Shards shards{reduce.count, ranks};
  Weights weights{};
  std::ranges::copy(reduce.weights, weights.of);
  const auto* const own = static_cast<const unsigned short*>(narrow_input(reduce)) + shards.begin(rank);
  auto* const into = static_cast<unsigned short*>(reduce.narrow) + shards.begin(rank);
  return module_->launch(sum_parts_, stream, own, static_cast<const unsigned short*>(reduce.parts), into,
                         static_cast<unsigned long long>(shards.length(rank)),
                         static_cast<unsigned long long>(shards.size()), static_cast<int>(rank),
                         static_cast<int>(ranks), weights, is_half(reduce));
}

Status BucketKernels::measure(const DeviceReduce& reduce, std::size_t index, device::CudaStream stream) const {
  if (!reduce.want_norms) return {};
  double* const into = sums(index) + kKernelBlocks;
  if (is_exchanged(reduce)) return measure_narrow(reduce, reduce.narrow, into, stream);
  return module_->launch(square_sum_, stream, static_cast<const float*>(reduce.data),
                         static_cast<unsigned long long>(reduce.count), into);
}

void BucketKernels::add_norms(std::size_t index, ReduceStats& stats) const {
  const double* const before = sums(index);
  const double* const after = before + kKernelBlocks;
  stats.local_square_sum += std::accumulate(before, after, 0.0);
  stats.reduced_square_sum += std::accumulate(after, after + kKernelBlocks, 0.0);
}

}  // namespace elastictrain::comm

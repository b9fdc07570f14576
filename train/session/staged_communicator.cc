#include "train/session/staged_communicator.h"

#include <algorithm>
#include <utility>

#include "train/session/half_floats.h"

namespace elastictrain::session {
namespace {

using Input = comm::DeviceReduce::Input;

device::DevicePointer address(const void* memory) {
  return reinterpret_cast<device::DevicePointer>(memory);
}

// Neither peers nor a retry can repair it.
Status final_failure(const Status& status) {
  if (status) return {};
  return Error{ErrorCode::kInvalid, status.error().message};
}

}  // namespace

Result<std::unique_ptr<comm::Communicator>> StagedCommunicator::over(std::unique_ptr<comm::Communicator> host,
                                                                     std::shared_ptr<device::Device> device) {
  auto stream = device::Stream::create(device);
  if (!stream) return stream.error();
  return std::unique_ptr<comm::Communicator>(
      new StagedCommunicator(std::move(host), std::move(device), std::move(*stream)));
}

// The caller's stream has finished the work that it held: the session waits for it.
Status StagedCommunicator::fetch(const comm::DeviceReduce& reduce) {
  const std::size_t bytes = reduce.count * sizeof(float);
  if (staged_.bytes() < bytes) {
    auto memory = device::PinnedMemory::allocate(device_, bytes);
    if (!memory) return memory.error();
    staged_ = std::move(*memory);
  }
  if (bytes == 0) return {};
  if (reduce.input == Input::kNothing) {
    std::fill_n(staged_.as<float>(), reduce.count, 0.0F);
    return {};
  }
  if (reduce.narrow != nullptr && reduce.input == Input::kKeep) return fetch_narrow(reduce);
  const device::Device::Scope scope(*device_);
  const auto& cuda = device_->cuda();
  Status status;
  if (reduce.input == Input::kKeep && reduce.keep != nullptr) {
    status = cuda.check(cuda.copy_on_device(address(reduce.keep), address(reduce.data), bytes, stream_.handle()),
                        "keep a gradient");
  }
  const float* from = reduce.input == Input::kKept ? reduce.keep : reduce.data;
  if (status) {
    status = cuda.check(cuda.copy_to_host(staged_.as<void>(), address(from), bytes, stream_.handle()),
                        "copy a gradient from the device");
  }
  return status ? stream_.synchronize() : status;
}

Status StagedCommunicator::fetch_narrow(const comm::DeviceReduce& reduce) {
  narrow_.resize(reduce.count);
  const std::size_t bytes = reduce.count * sizeof(std::uint16_t);
  if (auto status = copy(address(narrow_.data()), address(reduce.narrow), bytes, true); !status) return status;
  widen_floats(reduce.element == comm::Element::kFloat16, narrow_.data(), staged_.as<float>(), reduce.count);
  if (reduce.keep == nullptr) return {};
  return copy(address(reduce.keep), address(staged_.as<void>()), reduce.count * sizeof(float), false);
}

Status StagedCommunicator::copy(device::DevicePointer to, device::DevicePointer from, std::size_t bytes,
                                bool to_host) const {
  const device::Device::Scope scope(*device_);
  const auto& cuda = device_->cuda();
  const auto code = to_host ? cuda.copy_to_host(reinterpret_cast<void*>(to), from, bytes, stream_.handle())
                            : cuda.copy_to_device(to, reinterpret_cast<const void*>(from), bytes, stream_.handle());
  const Status status = cuda.check(code, "copy a gradient of 16 bits");
  return status ? stream_.synchronize() : status;
}

Status StagedCommunicator::put_back(const comm::DeviceReduce& reduce) {
  if (reduce.count == 0) return {};
  if (reduce.narrow != nullptr) {
    narrow_.resize(reduce.count);
    round_floats(reduce.element == comm::Element::kFloat16, staged_.as<float>(), narrow_.data(), reduce.count);
    return copy(address(reduce.narrow), address(narrow_.data()), reduce.count * sizeof(std::uint16_t), false);
  }
  const device::Device::Scope scope(*device_);
  const auto& cuda = device_->cuda();
  const Status status = cuda.check(
      cuda.copy_to_device(address(reduce.data), staged_.as<void>(), reduce.count * sizeof(float), stream_.handle()),
      "copy a gradient to the device");
  return status ? stream_.synchronize() : status;
}

Status StagedCommunicator::start_sum(const comm::DeviceReduce& reduce) {
  // The rank's own gradient is the sum already.
  if (world_size() == 1 && reduce.input == Input::kKeep && reduce.scale == 1.0F && !reduce.want_norms) return {};
  if (auto status = final_failure(fetch(reduce)); !status) return status;
  const comm::ReduceOptions options{.scale = reduce.scale, .want_norms = reduce.want_norms};
  comm::ReduceStats stats;
  const Status status = host_->all_reduce({staged_.as<float>(), reduce.count}, options, &stats);
  stats_.local_square_sum += stats.local_square_sum;
  stats_.reduced_square_sum += stats.reduced_square_sum;
  return status ? final_failure(put_back(reduce)) : status;
}

Status StagedCommunicator::finish_sums(comm::ReduceStats* stats) {
  const auto sums = std::exchange(stats_, {});
  if (stats == nullptr) return {};
  stats->local_square_sum += sums.local_square_sum;
  stats->reduced_square_sum += sums.reduced_square_sum;
  return {};
}

}  // namespace elastictrain::session

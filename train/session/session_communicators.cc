#include "train/session/session_communicators.h"

#include <algorithm>
#include <utility>

#include "train/session/half_floats.h"

namespace elastictrain::session {
namespace {

double square_sum(std::span<const float> data) {
  double lanes[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= data.size(); i += 8) {
    for (std::size_t k = 0; k < 8; ++k) lanes[k] += static_cast<double>(data[i + k]) * data[i + k];
  }
  for (; i < data.size(); ++i) lanes[0] += static_cast<double>(data[i]) * data[i];
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

comm::Capabilities SoloCommunicator::capabilities() const {
  return {.name = "solo"};
}

Status SoloCommunicator::check_self() const {
  if (aborted_.load()) return Error{ErrorCode::kAborted, "the communicator was aborted"};
  return {};
}

Status SoloCommunicator::all_reduce(std::span<float> data, const comm::ReduceOptions& options,
                                    comm::ReduceStats* stats) {
  std::copy(data.begin(), data.begin() + std::min(data.size(), options.keep.size()), options.keep.begin());
  if (auto status = check_self(); !status) return status;
  const bool norms = options.want_norms && stats != nullptr;
  if (norms) stats->local_square_sum = square_sum(data);
  if (options.scale != 1.0F) {
    for (float& value : data) value *= options.scale;
  }
  if (norms) {
    stats->reduced_square_sum =
        stats->local_square_sum * static_cast<double>(options.scale) * static_cast<double>(options.scale);
  }
  return {};
}

Status SoloCommunicator::broadcast(std::span<std::byte>, std::uint32_t) {
  return check_self();
}

Status SoloCommunicator::all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  std::copy(mine.begin(), mine.end(), all.begin());
  return check_self();
}

Status SoloCommunicator::send(std::span<const std::byte>, std::uint32_t) {
  return Error{ErrorCode::kInvalid, "a world of one has no peer to send to"};
}

Status SoloCommunicator::receive(std::span<std::byte>, std::uint32_t) {
  return Error{ErrorCode::kInvalid, "a world of one has no peer to receive from"};
}

Status SoloCommunicator::barrier() {
  return check_self();
}

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
  if (reduce.narrow == nullptr) return fetch(reduce, reduce.data, staged_.as<void>(), bytes);
  narrow_.resize(reduce.count);
  const auto fetched = fetch(reduce, reduce.narrow, narrow_.data(), reduce.count * sizeof(std::uint16_t));
  if (!fetched) return fetched;
  widen_floats(reduce.element == comm::Element::kFloat16, narrow_.data(), staged_.as<float>(), reduce.count);
  return {};
}

Status StagedCommunicator::fetch(const comm::DeviceReduce& reduce, const void* gradient, void* into,
                                 std::size_t bytes) const {
  const device::Device::Scope scope(*device_);
  const auto& cuda = device_->cuda();
  Status status;
  if (reduce.input == Input::kKeep && reduce.keep != nullptr) {
    status = cuda.check(cuda.copy_on_device(address(reduce.keep), address(gradient), bytes, stream_.handle()),
                        "keep a gradient");
  }
  const void* const from = reduce.input == Input::kKept ? reduce.keep : gradient;
  if (status) {
    status =
        cuda.check(cuda.copy_to_host(into, address(from), bytes, stream_.handle()), "copy a gradient from the device");
  }
  return status ? stream_.synchronize() : status;
}

Status StagedCommunicator::put_back(const comm::DeviceReduce& reduce) {
  if (reduce.count == 0) return {};
  if (reduce.narrow == nullptr) return put_back(staged_.as<void>(), reduce.data, reduce.count * sizeof(float));
  narrow_.resize(reduce.count);
  round_floats(reduce.element == comm::Element::kFloat16, staged_.as<float>(), narrow_.data(), reduce.count);
  return put_back(narrow_.data(), reduce.narrow, reduce.count * sizeof(std::uint16_t));
}

Status StagedCommunicator::put_back(const void* from, void* gradient, std::size_t bytes) const {
  const device::Device::Scope scope(*device_);
  const auto& cuda = device_->cuda();
  const Status status = cuda.check(cuda.copy_to_device(address(gradient), from, bytes, stream_.handle()),
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

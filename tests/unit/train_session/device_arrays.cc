#include "device_arrays.h"

#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

namespace elastictrain::test {
namespace {

void check(const Status& status) {
  if (!status) throw std::runtime_error(status.error().message);
}

template <class T>
T made(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

void put(const device::DeviceMemory& memory, const std::vector<float>& from, void* stream) {
  check(memory.copy_in(from.data(), from.size() * sizeof(float), stream));
}

void get(const device::DeviceMemory& memory, std::vector<float>& into, void* stream) {
  check(memory.copy_out(into.data(), into.size() * sizeof(float), stream));
}

}  // namespace

DeviceArrays::DeviceArrays(Session& session, std::size_t count) {
  // All workers of a test share the first GPU, which NCCL tolerates if the ranks appear to be on different hosts.
  ::setenv("NCCL_HOSTID", ("test-" + std::to_string(::getpid())).c_str(), 0);
  const auto device = made(device::Device::open(session.use_device()));
  const std::size_t bytes = count * sizeof(float);
  stream_ = made(device::Stream::create(device));
  second_stream_ = made(device::Stream::create(device));
  weights_ = made(device::DeviceMemory::allocate(device, bytes));
  momentum_ = made(device::DeviceMemory::allocate(device, bytes));
  gradient_ = made(device::DeviceMemory::allocate(device, bytes));
  session.reserve_gradient_copies(bytes + 32);
  session.share_device_state("weights", weights_.as<void>(), bytes);
  session.share_device_state("momentum", momentum_.as<void>(), bytes);
}

DeviceArrays::DeviceArrays(std::size_t count, int ordinal) {
  const auto device = made(device::Device::open(ordinal));
  stream_ = made(device::Stream::create(device));
  gradient_ = made(device::DeviceMemory::allocate(device, count * sizeof(float)));
}

void DeviceArrays::put_state(const std::vector<float>& weights, const std::vector<float>& momentum) {
  put(weights_, weights, stream());
  put(momentum_, momentum, stream());
}

void DeviceArrays::get_state(std::vector<float>& weights, std::vector<float>& momentum) {
  get(weights_, weights, stream());
  get(momentum_, momentum, stream());
  check(stream_.synchronize());
}

void DeviceArrays::put_gradient(const std::vector<float>& gradient) {
  put(gradient_, gradient, stream());
}

void DeviceArrays::get_gradient(std::vector<float>& gradient) {
  get(gradient_, gradient, stream());
  check(stream_.synchronize());
}

}  // namespace elastictrain::test

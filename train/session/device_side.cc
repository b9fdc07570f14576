#include "train/session/device_side.h"

#include <thread>
#include <utility>

namespace elastictrain::session {
namespace {

constexpr int kSpinsBeforeYield = 1000;

}  // namespace

Result<std::unique_ptr<DeviceSide>> DeviceSide::open(int ordinal) {
  auto device = device::Device::open(ordinal);
  if (!device) return device.error();
  auto port = device::DevicePort::open(*device);
  if (!port) return port.error();
  auto times = DeviceTimes::open(*device);
  if (!times) return times.error();
  return std::unique_ptr<DeviceSide>(new DeviceSide(std::move(*device), std::move(*port), std::move(*times)));
}

Status DeviceSide::state_written(void* stream) {
  state_stream_ = stream;
  return port_->order_after(stream);
}

Status DeviceSide::mark_input(std::size_t index, void* stream) {
  const std::lock_guard lock(mutex_);
  while (marks_.size() <= index) {
    auto input = device::Event::create(device_, true);
    if (!input) return input.error();
    auto sum = device::Event::create(device_, true);
    if (!sum) return sum.error();
    marks_.push_back({std::move(*input), std::move(*sum)});
  }
  return marks_[index].input.record(stream);
}

const DeviceSide::Marks& DeviceSide::mark(std::size_t index) {
  const std::lock_guard lock(mutex_);
  return marks_[index];
}

// Not every sum is made by the device. The mark of an earlier sum then lies before the gradient.
std::optional<DeviceTimes::Time> DeviceSide::sum_time(std::size_t index) {
  const auto& [input, sum] = mark(index);
  const auto took = sum.seconds_since(input);
  return took && *took >= 0 ? times_->of(sum) : std::nullopt;
}

Status DeviceSide::await_input(std::size_t index) {
  const device::Device::Scope scope(*device_);
  const device::Event& ready = mark(index).input;
  for (int spins = 0;; ++spins) {
    const device::CudaCode code = ready.query();
    if (code == device::kCudaSuccess) return {};
    if (code != device::kCudaNotReady) return device_->cuda().error(code, "wait for the program's computation");
    if (spins > kSpinsBeforeYield) std::this_thread::yield();
  }
}

Status DeviceSide::fill_zero(float* data, std::size_t count, void* stream) {
  const device::Device::Scope scope(*device_);
  const auto& cuda = device_->cuda();
  const auto address = reinterpret_cast<device::DevicePointer>(data);
  return cuda.check(cuda.fill_bytes(address, 0, count * sizeof(float), stream), "clear a gradient");
}

Result<float*> DeviceSide::keep(std::size_t index, std::size_t count) {
  if (keeps_.size() <= index) keeps_.resize(index + 1);
  if (keeps_[index].bytes() < count * sizeof(float)) {
    auto memory = device::DeviceMemory::allocate(device_, count * sizeof(float));
    if (!memory) return memory.error();
    keeps_[index] = std::move(*memory);
  }
  return keeps_[index].as<float>();
}

}  // namespace elastictrain::session

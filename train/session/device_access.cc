#include "train/session/device_access.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace elastictrain::session {

Result<std::unique_ptr<DeviceTimes>> DeviceTimes::open(const std::shared_ptr<device::Device>& device) {
  auto stream = device::Stream::create(device);
  if (!stream) return stream.error();
  auto begin = device::Event::create(device, true);
  if (!begin) return begin.error();
  return std::unique_ptr<DeviceTimes>(new DeviceTimes(std::move(*stream), std::move(*begin)));
}

Status DeviceTimes::step_begins(Time now) {
  began_ = now;
  return begin_.record(stream_.handle());
}

std::optional<DeviceTimes::Time> DeviceTimes::of(const device::Event& mark) const {
  if (begin_.query() != device::kCudaSuccess || mark.query() != device::kCudaSuccess) return std::nullopt;
  const auto seconds = mark.seconds_since(begin_);
  if (!seconds) return std::nullopt;
  const std::chrono::duration<double> since(std::max(0.0, *seconds));
  return began_ + std::chrono::duration_cast<Time::duration>(since);
}

namespace {

constexpr std::chrono::microseconds kAwaitPause{30};
constexpr std::size_t kCopyAlignment = 16;

}  // namespace

Result<std::unique_ptr<DeviceSide>> DeviceSide::open(int ordinal) {
  auto device = device::Device::open(ordinal);
  if (!device) return device.error();
  auto port = device::DevicePort::open(*device);
  if (!port) return port.error();
  auto times = DeviceTimes::open(*device);
  if (!times) return times.error();
  auto mark = device::Event::create(*device);
  if (!mark) return mark.error();
  return std::unique_ptr<DeviceSide>(
      new DeviceSide(std::move(*device), std::move(*port), std::move(*times), std::move(*mark)));
}

Status DeviceSide::state_written(void* stream) {
  is_state_marked_ = true;
  if (auto marked = state_mark_.record(stream); !marked) return marked;
  return port_->order_after(stream);
}

// A graph would record the marks and replay them without the session.
Status DeviceSide::refuse_capture(void* stream) const {
  const device::Device::Scope scope(*device_);
  const auto& cuda = device_->cuda();
  int capturing = 0;
  if (auto asked = cuda.check(cuda.stream_is_capturing(stream, &capturing), "ask for a capture"); !asked) return asked;
  if (capturing == 0) return {};
  return Error{ErrorCode::kInvalid,
               "a gradient's stream records a CUDA graph; sums cannot be part of one. End the capture before "
               "all_reduce_device(), and call that for each replay"};
}

Status DeviceSide::mark_input(std::size_t index, void* stream) {
  if (auto usable = refuse_capture(stream); !usable) return usable;
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
  return await(mark(index).input);
}

Status DeviceSide::follow(void* stream) {
  if (followed_.handle() == nullptr) {
    auto made = device::Event::create(device_);
    if (!made) return made.error();
    followed_ = std::move(*made);
  } else if (auto reached = await(followed_); !reached) {
    return reached;
  }
  return followed_.record(stream);
}

Status DeviceSide::await(const device::Event& mark) const {
  const device::Device::Scope scope(*device_);
  for (;;) {
    const device::CudaCode code = mark.query();
    if (code == device::kCudaSuccess) return {};
    if (code != device::kCudaNotReady) return device_->cuda().error(code, "wait for the program's computation");
    std::this_thread::sleep_for(kAwaitPause);
  }
}

Status DeviceSide::fill_zero(void* data, std::size_t bytes, void* stream) {
  const device::Device::Scope scope(*device_);
  const auto& cuda = device_->cuda();
  const auto address = reinterpret_cast<device::DevicePointer>(data);
  return cuda.check(cuda.fill_bytes(address, 0, bytes, stream), "clear a gradient");
}

Status DeviceSide::copy(void* into, const void* from, std::size_t bytes, void* stream) {
  const device::Device::Scope scope(*device_);
  const auto& cuda = device_->cuda();
  const auto target = reinterpret_cast<device::DevicePointer>(into);
  const auto source = reinterpret_cast<device::DevicePointer>(from);
  return cuda.check(cuda.copy_on_device(target, source, bytes, stream), "keep a gradient");
}

void* CopiesArea::of_bucket(std::size_t index, std::size_t bytes) {
  const std::size_t rounded = (bytes + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment;
  if (index < pieces_.size() && pieces_[index].bytes == rounded) return begin_ + pieces_[index].begin;
  if (index < pieces_.size()) pieces_.resize(index);
  const std::size_t begin = pieces_.empty() ? 0 : pieces_.back().begin + pieces_.back().bytes;
  if (rounded > bytes_ - begin) return nullptr;
  pieces_.resize(index, {begin, 0});
  pieces_.push_back({begin, rounded});
  return begin_ + begin;
}

void DeviceSide::plan_copies(std::size_t bytes, void* memory) {
  if (memory != nullptr) copies_ = CopiesArea(memory, bytes);
  planned_bytes_ = memory == nullptr ? bytes : 0;
  copies_bytes_ = memory == nullptr ? 0 : bytes;
}

Status DeviceSide::make_room() {
  if (planned_bytes_ == 0) return {};
  auto made = device::DeviceMemory::allocate(device_, planned_bytes_);
  if (!made) {
    return Error{ErrorCode::kUnavailable, "no memory on the device for copies of the gradients (" +
                                              std::to_string(planned_bytes_ >> 20) +
                                              " MiB), from which a step is repeated: " + made.error().message};
  }
  // Not while the driver allocates, which may take long: the training thread takes the lock, too.
  const std::lock_guard lock(mutex_);
  planned_ = std::move(*made);
  copies_bytes_ += planned_.bytes();
  copies_ = CopiesArea(planned_.as<void>(), std::exchange(planned_bytes_, 0));
  return {};
}

Result<void*> DeviceSide::keep(std::size_t index, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (void* const planned = copies_.of_bucket(index, bytes)) return planned;
  }
  return memory(keeps_, copies_bytes_, index, bytes);
}

Status DeviceSide::step_begins(DeviceTimes::Time now) {
  for (; parts_.size() > 1; parts_.erase(parts_.begin())) sums_bytes_ -= parts_.front().bytes();
  return times_->step_begins(now);
}

Result<void*> DeviceSide::parts(std::size_t bytes) {
  if (parts_.empty() || parts_.back().bytes() < bytes) {
    auto made = device::DeviceMemory::allocate(device_, bytes);
    if (!made) return made.error();
    parts_.push_back(std::move(*made));
    sums_bytes_ += bytes;
  }
  return parts_.back().as<void>();
}

Result<void*> DeviceSide::memory(std::vector<device::DeviceMemory>& pieces, std::atomic<std::size_t>& held,
                                 std::size_t index, std::size_t bytes) {
  if (pieces.size() <= index) pieces.resize(index + 1);
  if (pieces[index].bytes() < bytes) {
    auto made = device::DeviceMemory::allocate(device_, bytes);
    if (!made) return made.error();
    held += bytes - pieces[index].bytes();
    pieces[index] = std::move(*made);
  }
  return pieces[index].as<void>();
}

protocol::DeviceMemoryUse DeviceSide::memory_use() const {
  const device::Device::Scope scope(*device_);
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (device_->cuda().memory_info(&free_bytes, &total_bytes) != 0) return {};
  return {total_bytes, free_bytes, copies_bytes_, sums_bytes_};
}

}  // namespace elastictrain::session

#include "train/session/device_times.h"

#include <algorithm>
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

}  // namespace elastictrain::session

#include "train/device/stream.h"

#include "supervisor/protocol/check.h"

namespace elastictrain::device {

Result<Stream> Stream::create(std::shared_ptr<Device> device) {
  const Device::Scope scope(*device);
  Stream stream;
  const auto& cuda = device->cuda();
  auto made = cuda.check(cuda.stream_create(&stream.stream_, kStreamNonBlocking), "create a stream");
  if (!made) return made.error();
  stream.device_ = std::move(device);
  return stream;
}

Stream::~Stream() {
  if (stream_ == nullptr) return;
  const Device::Scope scope(*device_);
  device_->cuda().stream_destroy(stream_);
}

Status Stream::synchronize() const {
  const Device::Scope scope(*device_);
  return device_->cuda().check(device_->cuda().stream_synchronize(stream_), "wait for a stream");
}

Result<Event> Event::create(std::shared_ptr<Device> device, bool with_time) {
  const Device::Scope scope(*device);
  Event event;
  const auto& cuda = device->cuda();
  auto made =
      cuda.check(cuda.event_create(&event.event_, with_time ? kEventDefault : kEventDisableTiming), "create an event");
  if (!made) return made.error();
  event.device_ = std::move(device);
  return event;
}

Event::~Event() {
  if (event_ == nullptr) return;
  const Device::Scope scope(*device_);
  device_->cuda().event_destroy(event_);
}

Status Event::record(CudaStream stream) const {
  ET_CHECK(event_ != nullptr, "an event was created before it is recorded");
  const Device::Scope scope(*device_);
  return device_->cuda().check(device_->cuda().event_record(event_, stream), "record an event");
}

Status Event::order_before(CudaStream stream) const {
  ET_CHECK(event_ != nullptr, "an event was created before a stream waits for it");
  const Device::Scope scope(*device_);
  return device_->cuda().check(device_->cuda().stream_wait(stream, event_, 0), "let a stream wait for an event");
}

CudaCode Event::query() const {
  const Device::Scope scope(*device_);
  return device_->cuda().event_query(event_);
}

Status Event::synchronize() const {
  const Device::Scope scope(*device_);
  return device_->cuda().check(device_->cuda().event_synchronize(event_), "wait for an event");
}

Result<double> Event::seconds_since(const Event& earlier) const {
  const Device::Scope scope(*device_);
  float milliseconds = 0;
  auto read = device_->cuda().check(device_->cuda().event_elapsed(&milliseconds, earlier.event_, event_),
                                    "read the time between two events");
  if (!read) return read.error();
  return static_cast<double>(milliseconds) / 1000;
}

}  // namespace elastictrain::device

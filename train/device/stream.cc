#include "train/device/stream.h"

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

}  // namespace elastictrain::device

#include "train/device/device.h"

#include <map>
#include <mutex>

namespace elastictrain::device {
namespace {

struct OpenDevices {
  std::mutex mutex;
  std::map<int, std::weak_ptr<Device>> by_ordinal;
};

// Never destroyed: a thread that closes a communicator may outlive main().
OpenDevices& open_devices() {
  static auto* devices = new OpenDevices;
  return *devices;
}

}  // namespace

Result<int> Device::count() {
  const auto cuda = CudaLibrary::get();
  if (!cuda) return cuda.error();
  int count = 0;
  if (auto known = (*cuda)->check((*cuda)->device_count(&count), "count the GPUs"); !known) return known.error();
  return count;
}

Result<std::shared_ptr<Device>> Device::open(int ordinal) {
  const auto cuda = CudaLibrary::get();
  if (!cuda) return cuda.error();
  auto& devices = open_devices();
  const std::lock_guard lock(devices.mutex);
  auto& known = devices.by_ordinal[ordinal];
  if (auto alive = known.lock()) return alive;
  std::shared_ptr<Device> device(new Device(**cuda, ordinal));
  if (auto started = device->start(); !started) return Error{ErrorCode::kUnavailable, started.error().message};
  known = device;
  return device;
}

Status Device::start() {
  const std::string gpu = "GPU " + std::to_string(ordinal_);
  if (auto found = cuda_.check(cuda_.device_get(&device_, ordinal_), "find " + gpu); !found) return found;
  if (auto retained = cuda_.check(cuda_.context_retain(&context_, device_), "open " + gpu); !retained) return retained;
  char name[128] = {};
  if (cuda_.device_name(name, sizeof name, device_) == kCudaSuccess) name_ = name;
  cuda_.device_attribute(&major_, kAttributeMajor, device_);
  cuda_.device_attribute(&minor_, kAttributeMinor, device_);
  cuda_.device_attribute(&multiprocessors_, kAttributeMultiprocessors, device_);
  return {};
}

Device::~Device() {
  if (context_ != nullptr) cuda_.context_release(device_);
}

Status Device::synchronize() {
  const Scope scope(*this);
  return cuda_.check(cuda_.context_synchronize(), "wait for GPU " + std::to_string(ordinal_));
}

Status Device::probe() {
  const Scope scope(*this);
  CudaStream stream = nullptr;
  if (auto made = cuda_.check(cuda_.stream_create(&stream, kStreamNonBlocking), "create a stream"); !made) return made;
  DevicePointer memory = 0;
  auto status = cuda_.check(cuda_.allocate(&memory, 64), "allocate 64 bytes");
  if (status) status = cuda_.check(cuda_.fill_bytes(memory, 0, 64, stream), "write to the device");
  if (status) status = cuda_.check(cuda_.stream_synchronize(stream), "use the device");
  if (memory != 0) cuda_.free(memory);
  cuda_.stream_destroy(stream);
  return status;
}

}  // namespace elastictrain::device

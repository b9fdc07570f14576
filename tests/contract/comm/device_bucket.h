// Purpose: a bucket in the memory of the stand-in's device, for tests.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "tests/contract/comm/world.h"
#include "train/comm/device_interfaces.h"
#include "train/device/device_memory.h"
#include "train/device/stream.h"

namespace elastictrain::comm::testing {

class Bucket {
 public:
  explicit Bucket(const std::vector<float>& values) : Bucket(values.size()) { put(values); }
  explicit Bucket(std::size_t count) : device_(*device::Device::open(device_of_this_thread())), count_(count) {
    stream_ = std::move(*device::Stream::create(device_));
    data_ = std::move(*device::DeviceMemory::allocate(device_, count * sizeof(float)));
    keep_ = std::move(*device::DeviceMemory::allocate(device_, count * sizeof(float)));
  }

  void put(const std::vector<float>& values) {
    if (!data_.copy_in(values.data(), data_.bytes(), stream_.handle()) || !stream_.synchronize()) panic("copy");
  }
  std::vector<float> data() const { return read(data_); }
  std::vector<float> kept() const { return read(keep_); }
  std::byte* bytes() const { return data_.as<std::byte>(); }
  void* stream() const { return stream_.handle(); }

  DeviceReduce reduce(float scale = 1.0F, DeviceReduce::Input input = DeviceReduce::Input::kKeep) const {
    return {data_.as<float>(), count_,  nullptr, Element::kFloat32, scale, input, keep_.as<float>(),
            stream_.handle(),  nullptr, true};
  }

 private:
  std::vector<float> read(const device::DeviceMemory& memory) const {
    std::vector<float> values(count_);
    if (!memory.copy_out(values.data(), memory.bytes(), stream_.handle()) || !stream_.synchronize()) panic("copy");
    return values;
  }

  std::shared_ptr<device::Device> device_;
  std::size_t count_;
  device::Stream stream_;
  device::DeviceMemory data_;
  device::DeviceMemory keep_;
};

}  // namespace elastictrain::comm::testing

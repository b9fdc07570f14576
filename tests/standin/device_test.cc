// Devices, streams, memory and kernels, on the stand-in of the driver.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <type_traits>
#include <vector>

#include "tests/standin/standin_cuda.h"
#include "train/device/cuda_library.h"
#include "train/device/device_memory.h"
#include "train/device/device_port.h"
#include "train/device/kernel_module.h"
#include "train/device/stream.h"

namespace elastictrain::device {
namespace {

std::shared_ptr<Device> gpu() {
  auto opened = Device::open(0);
  if (!opened) panic(opened.error().message.c_str());
  return *opened;
}

DeviceMemory on_device(const std::shared_ptr<Device>& device, const Stream& stream, const std::vector<float>& values) {
  auto memory = DeviceMemory::allocate(device, values.size() * sizeof(float));
  REQUIRE(memory.ok());
  REQUIRE(memory->copy_in(values.data(), memory->bytes(), stream.handle()).ok());
  REQUIRE(stream.synchronize().ok());
  return std::move(*memory);
}

std::vector<float> on_host(const DeviceMemory& memory, const Stream& stream) {
  std::vector<float> values(memory.bytes() / sizeof(float));
  REQUIRE(memory.copy_out(values.data(), memory.bytes(), stream.handle()).ok());
  REQUIRE(stream.synchronize().ok());
  return values;
}

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

TEST_CASE("a device that is not there is refused with its number") {
  const auto absent = Device::open(64);
  REQUIRE_FALSE(absent.ok());
  CHECK(absent.error().code == ErrorCode::kUnavailable);
  CHECK(absent.error().message.find("GPU 64") != std::string::npos);
  CHECK(Device::open(0).value() == Device::open(0).value());
}

// What a host does not know of such a copy is that it waits behind a sum whose peer is lost.
TEST_CASE("a copy to host memory waits for the stream, and does not if the memory is pinned") {
  const auto device = gpu();
  const auto stream = Stream::create(device);
  REQUIRE(stream.ok());
  const auto data = on_device(device, *stream, {1, 2, 3});
  const auto pinned = PinnedMemory::allocate(device, data.bytes());
  REQUIRE(pinned.ok());
  std::atomic<bool> let_go{false};
  const auto hold = [](void* flag) {
    while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
  };
  REQUIRE(standin_cuda_enqueue(stream->handle(), hold, &let_go) == 0);
  REQUIRE(data.copy_out(pinned->as<void>(), data.bytes(), stream->handle()).ok());
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    let_go = true;
  });
  std::vector<float> pageable(3);
  REQUIRE(data.copy_out(pageable.data(), data.bytes(), stream->handle()).ok());
  CHECK(let_go);
  CHECK(pageable == std::vector<float>{1, 2, 3});
  later.join();
}

TEST_CASE("one pass keeps, sums the squares of and scales what a bucket holds") {
  const auto device = gpu();
  auto stream = Stream::create(device);
  REQUIRE(stream.ok());
  const auto module = KernelModule::get(device, kCommunicatorKernels);
  REQUIRE(module.ok());
  const auto prepare = (*module)->function("et_prepare");
  REQUIRE(prepare.ok());
  const auto values = counting(5000);
  const auto data = on_device(device, *stream, values);
  const auto keep = on_device(device, *stream, std::vector<float>(5000));
  const auto partials = DeviceMemory::allocate(device, kKernelBlocks * sizeof(double));
  REQUIRE(partials.ok());
  REQUIRE((*module)
              ->launch(*prepare, stream->handle(), data.as<float>(), keep.as<float>(), 5000ULL, 0.5F, 0,
                       partials->as<double>())
              .ok());
  std::vector<double> sums(kKernelBlocks);
  REQUIRE(partials->copy_out(sums.data(), partials->bytes(), stream->handle()).ok());
  CHECK(on_host(keep, *stream) == values);
  CHECK(on_host(data, *stream)[4999] == 2500.0F);
  CHECK(std::accumulate(sums.begin(), sums.end(), 0.0) == 5000.0 * 5001 * 10001 / 6);

  REQUIRE((*module)
              ->launch(*prepare, stream->handle(), data.as<float>(), keep.as<float>(), 5000ULL, 2.0F, 1,
                       partials->as<double>())
              .ok());
  CHECK(on_host(data, *stream)[4999] == 10000.0F);
  REQUIRE((*module)
              ->launch(*prepare, stream->handle(), data.as<float>(), keep.as<float>(), 5000ULL, 2.0F, 2,
                       partials->as<double>())
              .ok());
  CHECK(on_host(data, *stream) == std::vector<float>(5000));
  CHECK(on_host(keep, *stream) == values);
}

TEST_CASE("a sum of squares does not depend on where the memory begins, nor on a count that is no multiple of four") {
  const auto device = gpu();
  auto stream = Stream::create(device);
  const auto module = KernelModule::get(device, kCommunicatorKernels);
  REQUIRE((stream.ok() && module.ok()));
  const auto prepare = (*module)->function("et_prepare");
  const auto square_sum = (*module)->function("et_square_sum");
  REQUIRE((prepare.ok() && square_sum.ok()));
  const auto partials = DeviceMemory::allocate(device, 2 * kKernelBlocks * sizeof(double));
  REQUIRE(partials.ok());
  for (const std::size_t count : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, std::size_t{9999}}) {
    std::vector<std::vector<double>> sums;
    for (const std::size_t offset : {0, 1, 2}) {
      CAPTURE(count);
      CAPTURE(offset);
      std::vector<float> values(offset, 99.0F);
      for (std::size_t i = 0; i < count; ++i) values.push_back(1.0F / float(i + 1));
      const auto data = on_device(device, *stream, values);
      const auto keep = on_device(device, *stream, std::vector<float>(values.size(), 5.0F));
      REQUIRE((*module)
                  ->launch(*prepare, stream->handle(), data.as<float>() + offset, keep.as<float>() + offset,
                           static_cast<unsigned long long>(count), 2.0F, 0, partials->as<double>())
                  .ok());
      REQUIRE((*module)
                  ->launch(*square_sum, stream->handle(), static_cast<const float*>(data.as<float>() + offset),
                           static_cast<unsigned long long>(count), partials->as<double>() + kKernelBlocks)
                  .ok());
      auto& seen = sums.emplace_back(2 * kKernelBlocks);
      REQUIRE(partials->copy_out(seen.data(), partials->bytes(), stream->handle()).ok());
      const auto scaled = on_host(data, *stream);
      const auto kept = on_host(keep, *stream);
      for (std::size_t i = 0; i < values.size(); ++i) {
        REQUIRE(scaled[i] == (i < offset ? values[i] : 2 * values[i]));
        REQUIRE(kept[i] == (i < offset ? 5.0F : values[i]));
      }
    }
    CHECK(sums[1] == sums[0]);
    CHECK(sums[2] == sums[0]);
  }
}

TEST_CASE("an unknown kernel is not found") {
  const auto module = KernelModule::get(gpu(), kCommunicatorKernels);
  REQUIRE(module.ok());
  CHECK_FALSE((*module)->function("et_absent").ok());
}

TEST_CASE("an event puts the work of two streams into order") {
  const auto device = gpu();
  auto first = Stream::create(device);
  auto second = Stream::create(device);
  auto event = Event::create(device);
  REQUIRE((first.ok() && second.ok() && event.ok()));
  std::atomic<bool> go{false};
  standin_cuda_enqueue(
      first->handle(),
      [](void* flag) {
        while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
      },
      &go);
  const auto values = counting(100);
  const auto source = DeviceMemory::allocate(device, values.size() * sizeof(float));
  REQUIRE(source.ok());
  const auto from = PinnedMemory::allocate(device, source->bytes());
  const auto into = PinnedMemory::allocate(device, source->bytes());
  REQUIRE((from.ok() && into.ok()));
  std::copy(values.begin(), values.end(), from->as<float>());
  REQUIRE(source->copy_in(from->as<void>(), source->bytes(), first->handle()).ok());
  REQUIRE(event->record(first->handle()).ok());
  REQUIRE(event->order_before(second->handle()).ok());
  REQUIRE(source->copy_out(into->as<void>(), source->bytes(), second->handle()).ok());
  CHECK(event->query() == kCudaNotReady);
  go = true;
  REQUIRE(second->synchronize().ok());
  CHECK(std::equal(values.begin(), values.end(), into->as<float>()));
  CHECK(event->query() == kCudaSuccess);
}

// The stand-in is as unkind as a driver.
TEST_CASE("freeing memory waits for all work of the device, whichever stream holds it") {
  const auto device = gpu();
  auto stream = Stream::create(device);
  REQUIRE(stream.ok());
  auto memory = DeviceMemory::allocate(device, 16);
  auto pinned = PinnedMemory::allocate(device, 16);
  REQUIRE((memory.ok() && pinned.ok()));
  const auto ends_after_work = [&](auto& owner) {
    std::atomic<bool> done{false};
    standin_cuda_enqueue(
        stream->handle(),
        [](void* flag) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          *static_cast<std::atomic<bool>*>(flag) = true;
        },
        &done);
    owner = std::remove_reference_t<decltype(owner)>();
    const bool was_done = done;
    return stream->synchronize().ok() && was_done;
  };
  CHECK(ends_after_work(*memory));
  CHECK(ends_after_work(*pinned));
}

TEST_CASE("state on the device is read and written through pieces of pinned memory") {
  const auto device = gpu();
  auto stream = Stream::create(device);
  const auto port = DevicePort::open(device);
  REQUIRE((stream.ok() && port.ok()));
  const auto values = counting(3 << 20);  // more than one piece
  const auto memory = on_device(device, *stream, std::vector<float>(values.size()));
  REQUIRE(stream->synchronize().ok());
  REQUIRE((*port)->write(memory.as<std::byte>(), std::as_bytes(std::span(values))).ok());
  CHECK(on_host(memory, *stream) == values);
  std::vector<float> back(values.size());
  REQUIRE((*port)->read(memory.as<std::byte>(), std::as_writable_bytes(std::span(back))).ok());
  CHECK(back == values);
}

TEST_CASE("copies beyond a piece of memory are refused") {
  const auto device = gpu();
  auto stream = Stream::create(device);
  const auto memory = DeviceMemory::allocate(device, 16);
  REQUIRE((stream.ok() && memory.ok()));
  char bytes[32] = {};
  CHECK(memory->copy_in(bytes, 17, stream->handle()).error().code == ErrorCode::kInvalid);
  CHECK(memory->copy_out(bytes, 1, stream->handle(), 16).error().code == ErrorCode::kInvalid);
  CHECK(memory->copy_out(bytes, 16, stream->handle()).ok());
  CHECK(stream->synchronize().ok());
}

TEST_CASE("a sticky error means that the process must end") {
  const auto device = gpu();
  CHECK(device->probe().ok());
  for (const int code : {700, 710, 719, 721, 999}) {
    CAPTURE(code);
    standin_cuda_fault(code);
    const auto failed = device->probe();
    standin_cuda_fault(0);
    REQUIRE_FALSE(failed.ok());
    CHECK(failed.error().message.find(std::to_string(code)) != std::string::npos);
    CHECK(failed.error().message.find("the process must end") != std::string::npos);
  }
  CHECK_FALSE(is_sticky(kCudaOutOfMemory));
}

TEST_CASE("everything is given back") {
  const auto device = gpu();
  std::size_t streams[2];
  std::size_t events[2];
  std::size_t pieces[2];
  standin_cuda_alive(&streams[0], &events[0], &pieces[0]);
  for (int i = 0; i < 20; ++i) {
    auto stream = Stream::create(device);
    auto event = Event::create(device);
    auto memory = DeviceMemory::allocate(device, 100);
    auto port = DevicePort::open(device);
    REQUIRE((stream.ok() && event.ok() && memory.ok() && port.ok()));
  }
  standin_cuda_alive(&streams[1], &events[1], &pieces[1]);
  CHECK(streams[0] == streams[1]);
  CHECK(events[0] == events[1]);
  CHECK(pieces[0] == pieces[1]);
}

TEST_CASE("a matrix product is column-major, as cuBLAS has it") {
  const auto device = gpu();
  auto stream = Stream::create(device);
  const auto blas = CublasLibrary::get();
  REQUIRE((stream.ok() && blas.ok()));
  CublasHandle handle = nullptr;
  REQUIRE(CublasLibrary::check((*blas)->create(&handle), "create").ok());
  REQUIRE(CublasLibrary::check((*blas)->set_stream(handle, stream->handle()), "set the stream").ok());
  const auto a = on_device(device, *stream, {1, 2, 3, 4, 5, 6});  // 2 x 3: columns (1,2) (3,4) (5,6)
  const auto b = on_device(device, *stream, {1, 1, 1});           // 3 x 1
  const auto c = on_device(device, *stream, {0, 0});
  const float one = 1;
  const float zero = 0;
  REQUIRE((*blas)->sgemm(handle, kCublasNoTranspose, kCublasNoTranspose, 2, 1, 3, &one, a.as<float>(), 2, b.as<float>(),
                         3, &zero, c.as<float>(), 2) == 0);
  CHECK(on_host(c, *stream) == std::vector<float>{9, 12});
  CHECK((*blas)->destroy(handle) == 0);
}

}  // namespace
}  // namespace elastictrain::device

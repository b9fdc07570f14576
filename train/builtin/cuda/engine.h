// Purpose: the basis of the trainer's computation on a GPU: one stream, kernels and matrix products queued in it, and
// memory. cuBLAS and NVRTC are found at run time. No model here has convolutions, so cuDNN is not used.
//
// The first failure is kept, and no work is queued after it: callers queue a whole pass and then check status().
// Ownership: the caller of open(); memory that it allocated may outlive it. Thread: one at a time. Failure:
// kUnavailable without a GPU, its driver, cuBLAS or NVRTC, with what is missing; CUDA's errors as kInternal.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/device/cuda_library.h"
#include "train/device/device_memory.h"
#include "train/device/kernel_module.h"
#include "train/device/stream.h"

namespace elastictrain::train {

extern const char* const kTrainerKernels;

// C = A B, all row-major without gaps. A is rows x inner (after the transposition, if requested), B inner x columns.
struct Product {
  const float* a = nullptr;
  bool transpose_a = false;
  const float* b = nullptr;
  bool transpose_b = false;
  float* c = nullptr;
  std::size_t rows = 0;
  std::size_t inner = 0;
  std::size_t columns = 0;
};

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> open(int ordinal);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void* stream() const { return stream_.handle(); }
  const std::shared_ptr<device::Device>& device() const { return device_; }
  const Status& status() const { return status_; }

  // The arguments must have the types of the kernel's parameters.
  template <class... Arguments>
  void launch(const char* kernel, Arguments... arguments) {
    if (device::CudaFunction function = find(kernel)) note(kernels_->launch(function, stream(), arguments...));
  }

  // Float32 throughout: cuBLAS uses TF32 only on request.
  void multiply(const Product& product);

  device::DeviceMemory allocate(std::size_t bytes);
  // Enlarges `memory` if it is too small; its content is lost.
  void reserve(device::DeviceMemory& memory, std::size_t bytes);
  // Memory with a copy of `data`, complete when the call returns.
  template <class T>
  device::DeviceMemory upload(std::span<const T> data) {
    return upload_bytes(std::as_bytes(data));
  }
  // A step's indices, copied in the stream; valid until the next call.
  const unsigned long long* upload_indices(std::span<const std::uint64_t> indices);
  // Waits for all work in the stream; memory that the work uses must stay valid until then.
  void settle() { note(stream_.synchronize()); }
  // Copies after all work in the stream.
  void download(const float* from, std::span<float> into);

  void note(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

 private:
  Engine(std::shared_ptr<device::Device> device, device::KernelModule* kernels)
      : device_(std::move(device)), kernels_(kernels) {}
  Status start();
  void take_first_product();
  device::CudaFunction find(const char* kernel);
  device::DeviceMemory upload_bytes(std::span<const std::byte> data);

  const std::shared_ptr<device::Device> device_;
  device::KernelModule* const kernels_;
  const device::CublasLibrary* blas_ = nullptr;
  device::CublasHandle handle_ = nullptr;
  device::Stream stream_;
  std::map<std::string, device::CudaFunction, std::less<>> functions_;
  device::PinnedMemory host_indices_;
  device::DeviceMemory indices_;
  device::Event indices_copied_;
  Status status_;
};

// A few numbers of a step that are copied to the host in parallel with later work in the stream.
class Readback {
 public:
  Readback(Engine& engine, std::size_t bytes);

  void queue(const void* from, std::size_t bytes);
  // The numbers that were queued last, once they have arrived.
  template <class T>
  std::span<const T> wait() {
    await();
    return {host_.as<T>(), size_ / sizeof(T)};
  }

 private:
  void await();

  Engine& engine_;
  device::PinnedMemory host_;
  device::Event copied_;
  std::size_t size_ = 0;
};

}  // namespace elastictrain::train

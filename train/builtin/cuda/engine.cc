#include "train/builtin/cuda/engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace elastictrain::train {
namespace {

#define ET_KERNEL_TEXT(...) #__VA_ARGS__
constexpr const char* kText =
#include "train/builtin/cuda/kernels.inc"
    ;
#undef ET_KERNEL_TEXT

template <class T>
T taken(Engine& engine, Result<T> made) {
  if (made) return *std::move(made);
  engine.note(made.error());
  return {};
}

}  // namespace

const char* const kTrainerKernels = kText;

Result<std::unique_ptr<Engine>> Engine::open(int ordinal) {
  auto device = device::Device::open(ordinal);
  if (!device) return device.error();
  const auto kernels = device::KernelModule::get(*device, kTrainerKernels);
  if (!kernels) return kernels.error();
  std::unique_ptr<Engine> engine(new Engine(*std::move(device), *kernels));
  if (const Status started = engine->start(); !started) return started.error();
  return engine;
}

Status Engine::start() {
  const auto blas = device::CublasLibrary::get();
  if (!blas) return blas.error();
  blas_ = *blas;
  stream_ = taken(*this, device::Stream::create(device_));
  indices_copied_ = taken(*this, device::Event::create(device_));
  if (!status_) return status_;
  const device::Device::Scope scope(*device_);
  note(blas_->check(blas_->create(&handle_), "start cuBLAS"));
  if (status_) note(blas_->check(blas_->set_stream(handle_, stream()), "set the stream of cuBLAS"));
  if (status_) take_first_product();
  return status_;
}

// cuBLAS allocates memory at its first call, which may wait for the device: that must not happen next to a collective.
void Engine::take_first_product() {
  const device::DeviceMemory memory = allocate(3 * sizeof(float));
  if (!status_) return;
  note(memory.fill_zero(stream()));
  float* const first = memory.as<float>();
  multiply({.a = first, .b = first + 1, .c = first + 2, .rows = 1, .inner = 1, .columns = 1});
  settle();
}

Engine::~Engine() {
  if (handle_ == nullptr) return;
  const device::Device::Scope scope(*device_);
  blas_->destroy(handle_);
}

device::CudaFunction Engine::find(const char* kernel) {
  if (!status_) return nullptr;
  const auto known = functions_.find(kernel);
  if (known != functions_.end()) return known->second;
  const auto found = kernels_->function(kernel);
  if (!found) {
    note(found.error());
    return nullptr;
  }
  return functions_[kernel] = *found;
}

// Consecutive rows are the columns of the transposed matrix, and cuBLAS is column-major: C^T = B^T A^T.
void Engine::multiply(const Product& product) {
  if (!status_) return;
  const float one = 1;
  const float zero = 0;
  const auto rows = static_cast<int>(product.rows);
  const auto inner = static_cast<int>(product.inner);
  const auto columns = static_cast<int>(product.columns);
  const int transpose_a = product.transpose_a ? device::kCublasTranspose : device::kCublasNoTranspose;
  const int transpose_b = product.transpose_b ? device::kCublasTranspose : device::kCublasNoTranspose;
  const device::Device::Scope scope(*device_);
  note(blas_->check(blas_->sgemm(handle_, transpose_b, transpose_a, columns, rows, inner, &one, product.b,
                                 product.transpose_b ? inner : columns, product.a, product.transpose_a ? rows : inner,
                                 &zero, product.c, columns),
                    "multiply matrices"));
}

device::DeviceMemory Engine::allocate(std::size_t bytes) {
  if (!status_) return {};
  return taken(*this, device::DeviceMemory::allocate(device_, bytes));
}

void Engine::reserve(device::DeviceMemory& memory, std::size_t bytes) {
  if (memory.bytes() >= bytes) return;
  settle();
  memory = allocate(bytes);
}

device::DeviceMemory Engine::upload_bytes(std::span<const std::byte> data) {
  device::DeviceMemory memory = allocate(data.size());
  if (status_) note(memory.copy_in(data.data(), data.size(), stream()));
  if (status_) settle();
  return memory;
}

const unsigned long long* Engine::upload_indices(std::span<const std::uint64_t> indices) {
  note(indices_copied_.synchronize());
  reserve(indices_, indices.size_bytes());
  if (host_indices_.bytes() < indices.size_bytes()) {
    host_indices_ = taken(*this, device::PinnedMemory::allocate(device_, indices.size_bytes()));
  }
  if (!status_) return nullptr;
  std::memcpy(host_indices_.as<void>(), indices.data(), indices.size_bytes());
  note(indices_.copy_in(host_indices_.as<void>(), indices.size_bytes(), stream()));
  note(indices_copied_.record(stream()));
  return indices_.as<unsigned long long>();
}

void Engine::download(const float* from, std::span<float> into) {
  if (!status_) return;
  const device::Device::Scope scope(*device_);
  const auto& cuda = device_->cuda();
  const auto address = reinterpret_cast<device::DevicePointer>(from);
  note(cuda.check(cuda.copy_to_host(into.data(), address, into.size_bytes(), stream()), "copy from the device"));
  settle();
}

Readback::Readback(Engine& engine, std::size_t bytes)
    : engine_(engine),
      host_(taken(engine, device::PinnedMemory::allocate(engine.device(), bytes))),
      copied_(taken(engine, device::Event::create(engine.device()))) {}

void Readback::queue(const void* from, std::size_t bytes) {
  if (!engine_.status()) return;
  size_ = bytes;
  const device::Device::Scope scope(*engine_.device());
  const auto& cuda = engine_.device()->cuda();
  const auto address = reinterpret_cast<device::DevicePointer>(from);
  engine_.note(cuda.check(cuda.copy_to_host(host_.as<void>(), address, bytes, engine_.stream()), "copy a step's loss"));
  engine_.note(copied_.record(engine_.stream()));
}

void Readback::await() {
  if (engine_.status()) engine_.note(copied_.synchronize());
}

}  // namespace elastictrain::train

// Purpose: kernels from source text, compiled for the device when they are first needed: the build needs no CUDA
// compiler, and every architecture is supported, one that the run-time compiler does not know by portable code.
//
// The text is a small common subset of CUDA and C++ (see kernel_source.inc). The stand-in for the driver compiles the
// same file for the host, so kernels are tested on machines without a GPU. Ownership: kept until the process ends.
// Thread: any. Failure: kUnavailable without NVRTC; the compiler's message as kInternal.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/device/device.h"

namespace elastictrain::device {

inline constexpr unsigned kKernelBlocks = 256;    // the same on every device, so that sums are the same
inline constexpr unsigned kKernelThreads = 1024;  // per block; 256 blocks of them fill the largest GPUs

class KernelModule {
 public:
  // Compiled and loaded by the first call for this device and text; `text` must stay valid.
  static Result<KernelModule*> get(const std::shared_ptr<Device>& device, const char* text);

  Result<CudaFunction> function(const char* name) const;

  // Queues a kernel in `stream`. The arguments must have exactly the types of its parameters.
  template <class... Arguments>
  Status launch(CudaFunction function, CudaStream stream, Arguments... arguments) const {
    void* pointers[] = {&arguments...};
    return launch_pointers(function, stream, pointers);
  }

 private:
  KernelModule(std::shared_ptr<Device> device, CudaModule module) : device_(std::move(device)), module_(module) {}
  Status launch_pointers(CudaFunction function, CudaStream stream, void** arguments) const;

  std::shared_ptr<Device> device_;
  CudaModule module_;
};

// kUnavailable if the compiler is not found.
Status find_kernel_compiler();

// Code for an architecture such as "sm_90"; if the compiler does not know it, PTX for the newest one that it knows,
// which the driver compiles. Needs NVRTC, but no device.
Result<std::vector<char>> compile_kernels(const char* text, const std::string& architecture);

// The text of kernel_source.inc: the communicator's kernels.
extern const char* const kCommunicatorKernels;

}  // namespace elastictrain::device

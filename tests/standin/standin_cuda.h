// Purpose: inside of the stand-in for the CUDA driver: a device whose memory is the host's, whose streams are threads
// and whose kernels are the functions of kernel_source.inc. It is loaded as the driver is (ELASTICTRAIN_CUDA_LIBRARY).
//
// Faults, switched at run time by the process under test: standin_cuda_fault(). Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#define STANDIN_API extern "C" __attribute__((visibility("default")))

namespace standin {

struct Kernel {
  std::size_t parameters = 0;
  std::vector<std::size_t> sizes;
  std::function<void(unsigned blocks, void** arguments)> run;
};

std::map<std::string, Kernel>& kernels();

}  // namespace standin

// For the stand-in of NCCL: enqueues `work` into a stream, as one of its kernels.
STANDIN_API int standin_cuda_enqueue(void* stream, void (*work)(void*), void* argument);
// Whether all streams are idle: an implicit synchronization of the whole device waits for this.
STANDIN_API bool standin_cuda_idle();
// From now on every call fails with this code; 0: no more.
STANDIN_API void standin_cuda_fault(int code);
// Streams, events and pieces of memory (device and pinned) that are alive.
STANDIN_API void standin_cuda_alive(std::size_t* streams, std::size_t* events, std::size_t* allocations);

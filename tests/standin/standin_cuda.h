// Purpose: inside of the stand-in for the CUDA driver: devices whose memory is the host's, whose streams are threads
// with queues and whose kernels are the functions of kernel_source.inc. It is loaded as the driver is
// (ELASTICTRAIN_CUDA_LIBRARY).
//
// As on a real device, work given to a stream starts after what the stream holds; freeing memory, of the device or
// pinned, waits for all work of the device; and so does the first use of a kernel, unless CUDA_MODULE_LOADING=EAGER.
//
// Time of its own: a copy within the device takes ET_STANDIN_COPY_US, a sum of NCCL's stand-in ET_STANDIN_SUM_US, at
// least. Both are waits, so that streams overlap as they do on a device, on any number of cores.
//
// A device that is nearly full has no piece of more than ET_STANDIN_LARGEST_PIECE bytes.
//
// Faults, switched at run time by the process under test: standin_cuda_fault(). Thread: any.
#pragma once

#include <chrono>
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

// Makes the work that has begun at `begin` take the time that the variable names.
STANDIN_API void standin_cuda_take_time(const char* variable, std::chrono::steady_clock::time_point begin);
// For the stand-in of NCCL: enqueues `work` into a stream, as one of its kernels.
STANDIN_API int standin_cuda_enqueue(void* stream, void (*work)(void*), void* argument);
// The device of the calling thread's context.
STANDIN_API int standin_cuda_current_device();
// Makes the device that of the calling thread, as a context does.
STANDIN_API void standin_cuda_enter(int ordinal);
STANDIN_API void standin_cuda_leave();
// Waits for all work that the streams of the device hold now.
STANDIN_API void standin_cuda_await_device(int ordinal);
// The first use of a kernel: see above.
STANDIN_API void standin_cuda_load(const void* code);
// Whether all streams are idle: an implicit synchronization of the whole device waits for this.
STANDIN_API bool standin_cuda_idle();
// What cuStreamIsCapturing says of every stream: 1 while a CUDA graph is recorded.
STANDIN_API void standin_cuda_capture(int status);
// From now on every call fails with this code; 0: no more.
STANDIN_API void standin_cuda_fault(int code);
// The driver's, for the stand-in of NCCL.
STANDIN_API int cuStreamCreate(void** stream, unsigned flags);
STANDIN_API int cuStreamDestroy_v2(void* stream);
STANDIN_API int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags);
STANDIN_API int cuMemFreeHost(void* memory);
// Streams, events and pieces of memory (device and pinned) that are alive.
STANDIN_API void standin_cuda_alive(std::size_t* streams, std::size_t* events, std::size_t* allocations);
// How often a host has asked for an event so far.
STANDIN_API std::size_t standin_cuda_queries();

// Purpose: parts of the CUDA driver API and of cuBLAS that we use, found at run time, with declarations of our own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "supervisor/protocol/result.h"

// The part of the CUDA driver API that we use, found at run time, with declarations of our own: CUDA is not
// needed to build or to start. tests/standin/headers_test.cc compares them with the vendor's if those are installed.
//
// Ownership: one table for the lifetime of the process. Thread: any. Failure: kUnavailable without a driver; a CUDA
// error as kInternal with its name, its meaning and the failed action.
// Source: CUDA driver API reference, 12 and 13.

namespace elastictrain::device {

// Handles are opaque pointers in the driver's own declarations as well.
using CudaCode = int;
using CudaDevice = int;
using CudaContext = void*;
using CudaStream = void*;
using CudaEvent = void*;
using CudaModule = void*;
using CudaFunction = void*;
using DevicePointer = std::uint64_t;

inline constexpr CudaCode kCudaSuccess = 0;
inline constexpr CudaCode kCudaInvalidValue = 1;
inline constexpr CudaCode kCudaOutOfMemory = 2;
inline constexpr CudaCode kCudaNotReady = 600;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr int kAttributeMultiprocessors = 16;
inline constexpr int kAttributeMajor = 75;
inline constexpr int kAttributeMinor = 76;
inline constexpr int kPointerAttributeMemoryType = 2;
inline constexpr int kPointerAttributeOrdinal = 9;
inline constexpr int kMemoryTypeDevice = 2;

// X(member, symbol, parameters)
#define ET_CUDA_FUNCTIONS(X)                                                                       \
  X(init, cuInit, (unsigned))                                                                      \
  X(driver_version, cuDriverGetVersion, (int*))                                                    \
  X(error_name, cuGetErrorName, (CudaCode, const char**))                                          \
  X(error_text, cuGetErrorString, (CudaCode, const char**))                                        \
  X(device_count, cuDeviceGetCount, (int*))                                                        \
  X(device_get, cuDeviceGet, (CudaDevice*, int))                                                   \
  X(device_name, cuDeviceGetName, (char*, int, CudaDevice))                                        \
  X(device_memory, cuDeviceTotalMem_v2, (std::size_t*, CudaDevice))                                \
  X(device_attribute, cuDeviceGetAttribute, (int*, int, CudaDevice))                               \
  X(device_bus_id, cuDeviceGetPCIBusId, (char*, int, CudaDevice))                                  \
  X(can_access_peer, cuDeviceCanAccessPeer, (int*, CudaDevice, CudaDevice))                        \
  X(context_retain, cuDevicePrimaryCtxRetain, (CudaContext*, CudaDevice))                          \
  X(context_release, cuDevicePrimaryCtxRelease_v2, (CudaDevice))                                   \
  X(context_push, cuCtxPushCurrent_v2, (CudaContext))                                              \
  X(context_pop, cuCtxPopCurrent_v2, (CudaContext*))                                               \
  X(context_synchronize, cuCtxSynchronize, ())                                                     \
  X(memory_info, cuMemGetInfo_v2, (std::size_t*, std::size_t*))                                    \
  X(allocate, cuMemAlloc_v2, (DevicePointer*, std::size_t))                                        \
  X(free, cuMemFree_v2, (DevicePointer))                                                           \
  X(host_allocate, cuMemHostAlloc, (void**, std::size_t, unsigned))                                \
  X(host_free, cuMemFreeHost, (void*))                                                             \
  X(copy_to_device, cuMemcpyHtoDAsync_v2, (DevicePointer, const void*, std::size_t, CudaStream))   \
  X(copy_to_host, cuMemcpyDtoHAsync_v2, (void*, DevicePointer, std::size_t, CudaStream))           \
  X(copy_on_device, cuMemcpyDtoDAsync_v2, (DevicePointer, DevicePointer, std::size_t, CudaStream)) \
  X(fill_bytes, cuMemsetD8Async, (DevicePointer, unsigned char, std::size_t, CudaStream))          \
  X(pointer_attribute, cuPointerGetAttribute, (void*, int, DevicePointer))                         \
  X(stream_create, cuStreamCreate, (CudaStream*, unsigned))                                        \
  X(stream_destroy, cuStreamDestroy_v2, (CudaStream))                                              \
  X(stream_query, cuStreamQuery, (CudaStream))                                                     \
  X(stream_synchronize, cuStreamSynchronize, (CudaStream))                                         \
  X(stream_wait, cuStreamWaitEvent, (CudaStream, CudaEvent, unsigned))                             \
  X(stream_is_capturing, cuStreamIsCapturing, (CudaStream, int*))                                  \
  X(event_create, cuEventCreate, (CudaEvent*, unsigned))                                           \
  X(event_destroy, cuEventDestroy_v2, (CudaEvent))                                                 \
  X(event_record, cuEventRecord, (CudaEvent, CudaStream))                                          \
  X(event_query, cuEventQuery, (CudaEvent))                                                        \
  X(event_synchronize, cuEventSynchronize, (CudaEvent))                                            \
  X(event_elapsed, cuEventElapsedTime, (float*, CudaEvent, CudaEvent))                             \
  X(module_load, cuModuleLoadData, (CudaModule*, const void*))                                     \
  X(module_unload, cuModuleUnload, (CudaModule))                                                   \
  X(module_function, cuModuleGetFunction, (CudaFunction*, CudaModule, const char*))                \
  X(launch, cuLaunchKernel,                                                                        \
    (CudaFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CudaStream, void**, void**))

struct CudaLibrary {
#define ET_DECLARE(member, symbol, parameters) CudaCode(*member) parameters = nullptr;
  ET_CUDA_FUNCTIONS(ET_DECLARE)
#undef ET_DECLARE
  std::string path;

  // Opened and initialized by the first call, whose result is kept. Modules are loaded as the driver does by default,
  // lazily since 12.2: with eager loading cuBLAS alone costs seconds and up to a gigabyte. A lazy load waits until the
  // device is idle, which it is not during a collective, so what works next to one is loaded before (KernelModule,
  // comm/nccl/nccl_trial.h).
  static Result<const CudaLibrary*> get();

  // `doing`: "copy 4096 bytes to the device".
  Status check(CudaCode code, const std::string& doing) const;
  Error error(CudaCode code, const std::string& doing) const;
};

// After such an error every call of this process on the device fails: the process must be replaced.
bool is_sticky(CudaCode code);

// The part of cuBLAS that the trainer uses, found at run time. Matrices are column-major.
// Ownership: one table for the lifetime of the process. Thread: any for the table; a handle is for one thread at a
// time.
// Failure: kUnavailable without the library; a failed call as kInternal with its status.
// Source: cuBLAS 12 and 13, cublas_api.h.

using CublasHandle = void*;
inline constexpr int kCublasNoTranspose = 0;
inline constexpr int kCublasTranspose = 1;

struct CublasLibrary {
  int (*create)(CublasHandle*) = nullptr;
  int (*destroy)(CublasHandle) = nullptr;
  int (*set_stream)(CublasHandle, CudaStream) = nullptr;
  int (*sgemm)(CublasHandle, int transpose_a, int transpose_b, int m, int n, int k, const float* alpha, const float* a,
               int lda, const float* b, int ldb, const float* beta, float* c, int ldc) = nullptr;
  std::string path;

  static Result<const CublasLibrary*> get();
  static Status check(int code, const std::string& doing);
};

}  // namespace elastictrain::device

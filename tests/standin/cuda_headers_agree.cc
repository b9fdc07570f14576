// Compiles only if our declarations of the CUDA driver API match the vendor's: values, and sizes of all parameters.
#include <cuda.h>

#include "train/device/cuda_library.h"

namespace elastictrain::device {
namespace {

static_assert(kCudaSuccess == CUDA_SUCCESS && kCudaInvalidValue == CUDA_ERROR_INVALID_VALUE);
static_assert(kCudaOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY && kCudaNotReady == CUDA_ERROR_NOT_READY);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING && kEventDefault == CU_EVENT_DEFAULT);
static_assert(kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kAttributeMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(kAttributeMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(kAttributeMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kPointerAttributeMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(kPointerAttributeOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(kMemoryTypeDevice == CU_MEMORYTYPE_DEVICE);
static_assert(sizeof(DevicePointer) == sizeof(CUdeviceptr) && sizeof(CudaCode) == sizeof(CUresult));

template <class Ours, class Theirs>
struct Agree;

template <class A, class... Ours, class B, class... Theirs>
struct Agree<A (*)(Ours...), B(Theirs...)> {
  static constexpr bool same_count = sizeof...(Ours) == sizeof...(Theirs);
  static constexpr bool value = [] {
    if constexpr (same_count) {
      return ((sizeof(Ours) == sizeof(Theirs)) && ...) && ((std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>)&&...);
    } else {
      return false;
    }
  }();
};

#define ET_COMPARE(member, symbol, parameters) \
  static_assert(Agree<decltype(CudaLibrary::member), decltype(symbol)>::value, #symbol);
ET_CUDA_FUNCTIONS(ET_COMPARE)
#undef ET_COMPARE

}  // namespace
}  // namespace elastictrain::device

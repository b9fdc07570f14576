#include "train/device/cuda_library.h"

#include "train/device/shared_library.h"

namespace elastictrain::device {
namespace {

Result<const CudaLibrary*> open_cuda_driver() {
  static CudaLibrary table;
  const auto library = SharedLibrary::open({"the CUDA driver", "ELASTICTRAIN_CUDA_LIBRARY", {"libcuda.so.1"}});
  if (!library) return library.error();
  SymbolLoader loader(*library);
#define ET_LOAD(member, symbol, parameters) loader.require(table.member, #symbol);
  ET_CUDA_FUNCTIONS(ET_LOAD)
#undef ET_LOAD
  if (auto complete = loader.status("the CUDA driver"); !complete) return complete.error();
  table.path = library->path();
  if (auto ready = table.check(table.init(0), "initialize the CUDA driver"); !ready) {
    return Error{ErrorCode::kUnavailable, ready.error().message};
  }
  return &table;
}

}  // namespace

Result<const CudaLibrary*> CudaLibrary::get() {
  static const Result<const CudaLibrary*> outcome = open_cuda_driver();
  return outcome;
}

Status CudaLibrary::check(CudaCode code, const std::string& doing) const {
  if (code == kCudaSuccess) [[likely]]
    return {};
  return error(code, doing);
}

Error CudaLibrary::error(CudaCode code, const std::string& doing) const {
  const char* name = nullptr;
  const char* text = nullptr;
  error_name(code, &name);
  error_text(code, &text);
  std::string message = "could not " + doing + ": " + (name != nullptr ? name : "CUDA error") + " (" +
                        std::to_string(code) + ")" + (text != nullptr ? std::string(", ") + text : "");
  if (is_sticky(code)) message += ". Every further call of this process on the device fails; the process must end";
  return {ErrorCode::kInternal, std::move(message)};
}

bool is_sticky(CudaCode code) {
  constexpr CudaCode kEccUncorrectable = 214;
  constexpr CudaCode kNvlinkUncorrectable = 220;
  constexpr CudaCode kContained = 226;
  constexpr CudaCode kIllegalAddress = 700;
  constexpr CudaCode kLaunchTimeout = 702;
  constexpr CudaCode kContextDestroyed = 709;
  constexpr CudaCode kAssert = 710;
  constexpr CudaCode kHardwareStack = 714;
  constexpr CudaCode kLaunchFailed = 719;
  constexpr CudaCode kTensorMemoryLeak = 721;
  constexpr CudaCode kUnknown = 999;
  switch (code) {
    case kEccUncorrectable:
    case kNvlinkUncorrectable:
    case kContained:
    case kIllegalAddress:
    case kLaunchTimeout:
    case kContextDestroyed:
    case kAssert:
    case kTensorMemoryLeak:
    case kUnknown:
      return true;
    default:
      return code >= kHardwareStack && code <= kLaunchFailed;
  }
}

namespace {

Result<const CublasLibrary*> open_cublas() {
  static CublasLibrary table;
  const auto library = SharedLibrary::open(
      {"cuBLAS", "ELASTICTRAIN_CUBLAS_LIBRARY", {"libcublas.so", "libcublas.so.13", "libcublas.so.12"}});
  if (!library) return library.error();
  SymbolLoader loader(*library);
  loader.require(table.create, "cublasCreate_v2");
  loader.require(table.destroy, "cublasDestroy_v2");
  loader.require(table.set_stream, "cublasSetStream_v2");
  loader.require(table.sgemm, "cublasSgemm_v2");
  if (auto complete = loader.status("cuBLAS"); !complete) return complete.error();
  table.path = library->path();
  return &table;
}

}  // namespace

Result<const CublasLibrary*> CublasLibrary::get() {
  static const Result<const CublasLibrary*> outcome = open_cublas();
  return outcome;
}

Status CublasLibrary::check(int code, const std::string& doing) {
  if (code == 0) [[likely]]
    return {};
  return Error{ErrorCode::kInternal, "could not " + doing + ": cuBLAS status " + std::to_string(code)};
}

}  // namespace elastictrain::device

#include "train/device/cublas_library.h"

#include "train/device/shared_library.h"

namespace elastictrain::device {
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

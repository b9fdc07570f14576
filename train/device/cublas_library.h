// Purpose: the part of cuBLAS that the trainer uses, found at run time. Matrices are column-major.
// Ownership: one table for the lifetime of the process. Thread: any for the table; a handle is for one thread at a
// time.
// Failure: kUnavailable without the library; a failed call as kInternal with its status.
// Source: cuBLAS 12 and 13, cublas_api.h.
#pragma once

#include <string>

#include "supervisor/protocol/result.h"
#include "train/device/cuda_library.h"

namespace elastictrain::device {

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

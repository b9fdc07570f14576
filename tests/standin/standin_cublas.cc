// Matrix products of cuBLAS in plain loops, column-major, in the stream that was set.
#include <cstddef>
#include <functional>

#include "tests/standin/standin_cuda.h"

namespace {

struct Handle {
  void* stream = nullptr;
};

struct Product {
  bool transpose_a, transpose_b;
  int m, n, k;
  float alpha, beta;
  const float *a, *b;
  int lda, ldb, ldc;
  float* c;

  float element(const float* matrix, int leading, bool transposed, int row, int column) const {
    return transposed ? matrix[column + static_cast<std::ptrdiff_t>(row) * leading]
                      : matrix[row + static_cast<std::ptrdiff_t>(column) * leading];
  }
  void run() const {
    for (int column = 0; column < n; ++column) {
      for (int row = 0; row < m; ++row) {
        float sum = 0;
        for (int i = 0; i < k; ++i) {
          sum += element(a, lda, transpose_a, row, i) * element(b, ldb, transpose_b, i, column);
        }
        float& place = c[row + static_cast<std::ptrdiff_t>(column) * ldc];
        place = alpha * sum + (beta == 0 ? 0 : beta * place);
      }
    }
  }
};

}  // namespace

STANDIN_API int cublasCreate_v2(void** handle) {
  *handle = new Handle;
  return 0;
}
STANDIN_API int cublasDestroy_v2(void* handle) {
  delete static_cast<Handle*>(handle);
  return 0;
}
STANDIN_API int cublasSetStream_v2(void* handle, void* stream) {
  static_cast<Handle*>(handle)->stream = stream;
  return 0;
}
STANDIN_API int cublasSgemm_v2(void* handle, int transpose_a, int transpose_b, int m, int n, int k, const float* alpha,
                               const float* a, int lda, const float* b, int ldb, const float* beta, float* c, int ldc) {
  const auto run = [](void* argument) {
    auto* product = static_cast<Product*>(argument);
    product->run();
    delete product;
  };
  auto* product = new Product{transpose_a != 0, transpose_b != 0, m, n, k, *alpha, *beta, a, b, lda, ldb, ldc, c};
  return standin_cuda_enqueue(static_cast<Handle*>(handle)->stream, run, product);
}

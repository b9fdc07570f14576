#include "train/comm/kernels.h"

#include <algorithm>
#include <cstring>

// Sanitizers instrument the resolvers, which run before the sanitizer is ready.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ET_VECTOR_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define ET_VECTOR_CLONES
#endif

namespace elastictrain::comm {
namespace {

constexpr std::size_t kLanes = 16;
// Partial results of a block stay in the first-level cache.
constexpr std::size_t kBlock = 2048;

}  // namespace

ET_VECTOR_CLONES
static void multiply(float* __restrict__ out, const float* __restrict__ in, std::size_t count, float scale) {
  for (std::size_t i = 0; i < count; ++i) out[i] = in[i] * scale;
}

ET_VECTOR_CLONES
static void multiply_in_place(float* values, std::size_t count, float scale) {
  for (std::size_t i = 0; i < count; ++i) values[i] *= scale;
}

ET_VECTOR_CLONES
static void add_impl(float* __restrict__ values, const float* __restrict__ other, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] += other[i];
}

ET_VECTOR_CLONES
static void scale_add_impl(float* __restrict__ values, const float* __restrict__ other, std::size_t count,
                           float scale) {
  for (std::size_t i = 0; i < count; ++i) values[i] = scale * values[i] + other[i];
}

ET_VECTOR_CLONES
static void add_scaled_impl(float* __restrict__ values, const float* __restrict__ other, std::size_t count,
                            float scale) {
  for (std::size_t i = 0; i < count; ++i) values[i] += scale * other[i];
}

ET_VECTOR_CLONES
static void add_scaled_to_both_impl(float* __restrict__ values, float* __restrict__ other, std::size_t count,
                                    float scale) {
  for (std::size_t i = 0; i < count; ++i) values[i] = other[i] = values[i] + scale * other[i];
}

ET_VECTOR_CLONES
static void add_two(float* __restrict__ out, const float* __restrict__ a, const float* __restrict__ b,
                    std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

ET_VECTOR_CLONES
static void square_lanes(double* __restrict__ lanes, const float* __restrict__ values, std::size_t count) {
  for (std::size_t i = 0; i < count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[lane] += value * value;
    }
  }
}

void copy_scaled(float* out, const float* in, std::size_t count, float scale) {
  if (scale == 1.0F) {
    std::memcpy(out, in, count * sizeof(float));
  } else {
    multiply(out, in, count, scale);
  }
}

void scale_in_place(float* values, std::size_t count, float scale) {
  if (scale != 1.0F) multiply_in_place(values, count, scale);
}

void add(float* values, const float* other, std::size_t count) {
  add_impl(values, other, count);
}

void scale_add(float* values, const float* other, std::size_t count, float scale) {
  if (scale == 1.0F) {
    add_impl(values, other, count);
  } else {
    scale_add_impl(values, other, count, scale);
  }
}

void add_scaled(float* values, const float* other, std::size_t count, float scale) {
  if (scale == 1.0F) {
    add_impl(values, other, count);
  } else {
    add_scaled_impl(values, other, count, scale);
  }
}

void add_scaled_to_both(float* values, float* other, std::size_t count, float scale) {
  add_scaled_to_both_impl(values, other, count, scale);
}

void sum_of(float* out, std::span<const float* const> inputs, std::size_t count) {
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t length = std::min(kBlock, count - start);
    if (inputs.size() == 1) {
      std::memcpy(out + start, inputs[0] + start, length * sizeof(float));
      continue;
    }
    add_two(out + start, inputs[0] + start, inputs[1] + start, length);
    for (std::size_t i = 2; i < inputs.size(); ++i) add_impl(out + start, inputs[i] + start, length);
  }
}

double square_sum(const float* values, std::size_t count) {
  double lanes[kLanes] = {};
  const std::size_t whole = count / kLanes * kLanes;
  square_lanes(lanes, values, whole);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (std::size_t i = whole; i < count; ++i) sum += static_cast<double>(values[i]) * values[i];
  return sum;
}

}  // namespace elastictrain::comm

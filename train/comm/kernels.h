// Purpose: the inner loops over float32, compiled for several vector widths and chosen at load time.
//
// Every element is computed separately, so the vector width does not change a result. Sums of squares are formed in
// double from exact products, in an order that depends on the length only. Buffers must not overlap.
#pragma once

#include <cstddef>
#include <span>

namespace elastictrain::comm {

void copy_scaled(float* out, const float* in, std::size_t count, float scale);
void scale_in_place(float* values, std::size_t count, float scale);
void add(float* values, const float* other, std::size_t count);
// values = scale * values + other
void scale_add(float* values, const float* other, std::size_t count, float scale);
// values = values + scale * other
void add_scaled(float* values, const float* other, std::size_t count, float scale);
// Both become values + scale * other.
void add_scaled_to_both(float* values, float* other, std::size_t count, float scale);
// out = inputs[0] + inputs[1] + …, in this order
void sum_of(float* out, std::span<const float* const> inputs, std::size_t count);
double square_sum(const float* values, std::size_t count);

}  // namespace elastictrain::comm

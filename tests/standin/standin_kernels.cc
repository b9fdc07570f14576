// The kernels' source compiled for the host: one call per block, a block being one thread.
#include <cmath>
#include <string>

#include "tests/standin/standin_cuda.h"
#include "train/session/half_floats.h"

namespace {

using et_size = unsigned long long;
struct alignas(16) et_four {
  float x, y, z, w;
};

float et_from_half(unsigned short bits) {
  return elastictrain::session::from_half(bits);
}
unsigned short et_to_half(float value) {
  return elastictrain::session::to_half(value);
}
float et_from_bfloat(unsigned short bits) {
  return elastictrain::session::from_bfloat(bits);
}
unsigned short et_to_bfloat(float value) {
  return elastictrain::session::to_bfloat(value);
}

thread_local et_size block_index = 0;
thread_local et_size block_count = 1;

template <class... Parameters, std::size_t... I>
void unpack(void (*kernel)(Parameters...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<Parameters*>(arguments[I])...);
}

template <class... Parameters>
bool add_kernel(const char* name, void (*kernel)(Parameters...)) {
  standin::kernels()[name] = {
      sizeof...(Parameters), {sizeof(Parameters)...}, [kernel](unsigned blocks, void** arguments) {
        block_count = blocks;
        for (block_index = 0; block_index < blocks; ++block_index) {
          unpack(kernel, arguments, std::index_sequence_for<Parameters...>());
        }
      }};
  return true;
}

#define ET_KERNEL_TEXT(...) __VA_ARGS__
#define ET_KERNEL(name) void name
#define ET_DEVICE static
#define ET_REGISTER(name) const bool registered_##name = add_kernel(#name, name);
#define ET_INDEX block_index
#define ET_STRIDE block_count
#define ET_ATOMIC_ADD(place, value) (*(place) += (value))
#define ET_BLOCK_SUM(partials, value) ((partials)[block_index] = (value))

#include "train/builtin/cuda/kernels.inc"
#include "train/device/kernel_source.inc"

}  // namespace

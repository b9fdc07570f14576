#include "train/device/kernel_module.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "train/device/shared_library.h"

namespace elastictrain::device {
namespace {

using NvrtcProgram = void*;

// Source: NVRTC 11.2 to 13.0, nvrtc.h.
struct NvrtcLibrary {
  int (*create)(NvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*destroy)(NvrtcProgram*) = nullptr;
  int (*compile)(NvrtcProgram, int, const char* const*) = nullptr;
  int (*log_size)(NvrtcProgram, std::size_t*) = nullptr;
  int (*log)(NvrtcProgram, char*) = nullptr;
  int (*code_size)(NvrtcProgram, std::size_t*) = nullptr;
  int (*code)(NvrtcProgram, char*) = nullptr;
  int (*ptx_size)(NvrtcProgram, std::size_t*) = nullptr;
  int (*ptx)(NvrtcProgram, char*) = nullptr;
  int (*architecture_count)(int*) = nullptr;
  int (*architectures)(int*) = nullptr;
};

Result<NvrtcLibrary> open_nvrtc() {
  const auto library = SharedLibrary::open({"NVRTC, the run-time compiler of CUDA,",
                                            "ELASTICTRAIN_NVRTC_LIBRARY",
                                            {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"}});
  if (!library) return library.error();
  NvrtcLibrary table;
  SymbolLoader loader(*library);
  loader.require(table.create, "nvrtcCreateProgram");
  loader.require(table.destroy, "nvrtcDestroyProgram");
  loader.require(table.compile, "nvrtcCompileProgram");
  loader.require(table.log_size, "nvrtcGetProgramLogSize");
  loader.require(table.log, "nvrtcGetProgramLog");
  loader.require(table.code_size, "nvrtcGetCUBINSize");
  loader.require(table.code, "nvrtcGetCUBIN");
  loader.require(table.ptx_size, "nvrtcGetPTXSize");
  loader.require(table.ptx, "nvrtcGetPTX");
  loader.require(table.architecture_count, "nvrtcGetNumSupportedArchs");
  loader.require(table.architectures, "nvrtcGetSupportedArchs");
  if (auto complete = loader.status("NVRTC"); !complete) return complete.error();
  return table;
}

constexpr const char* kPrelude = R"(
typedef unsigned long long et_size;
struct __align__(16) et_four { float x, y, z, w; };
#define ET_KERNEL(name) extern "C" __global__ void __launch_bounds__(1024) name
#define ET_DEVICE static __device__
#define ET_REGISTER(name)
#define ET_INDEX ((et_size)blockIdx.x * blockDim.x + threadIdx.x)
#define ET_STRIDE ((et_size)gridDim.x * blockDim.x)
#define ET_ATOMIC_ADD(place, value) atomicAdd(place, value)
#define ET_BLOCK_SUM(partials, value) et_block_sum(partials, value)
static __device__ float et_from_half(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
static __device__ unsigned short et_to_half(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
static __device__ float et_from_bfloat(unsigned short bits) {
  return __uint_as_float((unsigned)bits << 16);
}
static __device__ unsigned short et_to_bfloat(float value) {
  unsigned bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)(bits >> 16 | 0x40u);
  return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
static __device__ void et_block_sum(double* partials, double value) {
  __shared__ double warps[32];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    double sum = 0;
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) sum += warps[warp];
    partials[blockIdx.x] = sum;
  }
}
)";

std::string compiler_log(const NvrtcLibrary& nvrtc, NvrtcProgram program) {
  std::size_t size = 0;
  if (nvrtc.log_size(program, &size) != 0 || size <= 1) return "it gave no reason";
  std::string log(size, '\0');
  nvrtc.log(program, log.data());
  log.resize(size - 1);
  return log;
}

Result<std::vector<char>> compiled_code(const NvrtcLibrary& nvrtc, NvrtcProgram program,
                                        const std::string& architecture) {
  const std::string target = "--gpu-architecture=" + architecture;
  // Without contraction a kernel gives the same result as the same text on the host.
  const char* options[] = {target.c_str(), "--fmad=false", "--std=c++17"};
  if (nvrtc.compile(program, 3, options) != 0) {
    return Error{ErrorCode::kInternal,
                 "NVRTC could not compile for " + architecture + ": " + compiler_log(nvrtc, program)};
  }
  const bool is_portable = architecture.starts_with("compute_");
  std::size_t size = 0;
  std::vector<char> code;
  if ((is_portable ? nvrtc.ptx_size : nvrtc.code_size)(program, &size) == 0 && size > 0) {
    code.resize(size);
    if ((is_portable ? nvrtc.ptx : nvrtc.code)(program, code.data()) == 0) return code;
  }
  return Error{ErrorCode::kInternal, "NVRTC returned no code for " + architecture};
}

// `wanted`, such as "sm_90", or the newest one that the compiler knows, as portable code that the driver compiles.
std::string known_architecture(const NvrtcLibrary& nvrtc, const std::string& wanted) {
  int count = 0;
  if (nvrtc.architecture_count(&count) != 0 || count < 1) return wanted;
  std::vector<int> known(static_cast<std::size_t>(count));
  if (nvrtc.architectures(known.data()) != 0) return wanted;
  const int number = std::atoi(wanted.c_str() + wanted.find('_') + 1);
  if (std::find(known.begin(), known.end(), number) != known.end()) return wanted;
  const auto newer = std::upper_bound(known.begin(), known.end(), number);  // they are in ascending order
  return newer == known.begin() ? wanted : "compute_" + std::to_string(*(newer - 1));
}

struct Modules {
  std::mutex mutex;
  std::map<std::pair<int, const char*>, std::unique_ptr<KernelModule>> loaded;
};

Modules& modules() {
  static auto* all = new Modules;
  return *all;
}

#define ET_KERNEL_TEXT(...) #__VA_ARGS__
constexpr const char* kText =
#include "train/device/kernel_source.inc"
    ;
#undef ET_KERNEL_TEXT

}  // namespace

const char* const kCommunicatorKernels = kText;

Status find_kernel_compiler() {
  const auto nvrtc = open_nvrtc();
  return nvrtc ? Status() : nvrtc.error();
}

Result<std::vector<char>> compile_kernels(const char* text, const std::string& architecture) {
  const auto nvrtc = open_nvrtc();
  if (!nvrtc) return nvrtc.error();
  const std::string source = std::string(kPrelude) + text;
  NvrtcProgram program = nullptr;
  if (nvrtc->create(&program, source.c_str(), "elastictrain.cu", 0, nullptr, nullptr) != 0) {
    return Error{ErrorCode::kInternal, "NVRTC could not read the kernels' source"};
  }
  auto code = compiled_code(*nvrtc, program, known_architecture(*nvrtc, architecture));
  nvrtc->destroy(&program);
  return code;
}

Result<KernelModule*> KernelModule::get(const std::shared_ptr<Device>& device, const char* text) {
  auto& all = modules();
  const std::lock_guard lock(all.mutex);
  auto& known = all.loaded[{device->ordinal(), text}];
  if (known) return known.get();
  const auto code = compile_kernels(text, "sm_" + std::to_string(device->major()) + std::to_string(device->minor()));
  if (!code) return code.error();
  const Device::Scope scope(*device);
  CudaModule module = nullptr;
  const auto& cuda = device->cuda();
  auto loaded = cuda.check(cuda.module_load(&module, code->data()), "load the kernels on " + device->name());
  if (!loaded) return loaded.error();
  known.reset(new KernelModule(device, module));
  return known.get();
}

Result<CudaFunction> KernelModule::function(const char* name) const {
  const Device::Scope scope(*device_);
  CudaFunction function = nullptr;
  const auto& cuda = device_->cuda();
  auto found = cuda.check(cuda.module_function(&function, module_, name), std::string("find the kernel ") + name);
  if (!found) return found.error();
  return function;
}

Status KernelModule::launch_pointers(CudaFunction function, CudaStream stream, void** arguments) const {
  const Device::Scope scope(*device_);
  const auto& cuda = device_->cuda();
  return cuda.check(cuda.launch(function, kKernelBlocks, 1, 1, kKernelThreads, 1, 1, 0, stream, arguments, nullptr),
                    "launch a kernel");
}

}  // namespace elastictrain::device

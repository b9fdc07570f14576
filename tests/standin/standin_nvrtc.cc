// Accepts any source: the stand-in of the driver has the same kernels compiled in.
#include <cstring>
#include <string>

#define STANDIN_API extern "C" __attribute__((visibility("default")))

namespace {
constexpr char kCode[] = "stand-in";
}

STANDIN_API int nvrtcCreateProgram(void** program, const char* text, const char*, int, const char* const*,
                                   const char* const*) {
  *program = new std::string(text);
  return 0;
}
STANDIN_API int nvrtcDestroyProgram(void** program) {
  delete static_cast<std::string*>(*program);
  *program = nullptr;
  return 0;
}
STANDIN_API int nvrtcCompileProgram(void*, int, const char* const*) {
  return 0;
}
STANDIN_API int nvrtcGetProgramLogSize(void*, std::size_t* size) {
  *size = 1;
  return 0;
}
STANDIN_API int nvrtcGetProgramLog(void*, char* log) {
  *log = '\0';
  return 0;
}
STANDIN_API int nvrtcGetCUBINSize(void*, std::size_t* size) {
  *size = sizeof kCode;
  return 0;
}
STANDIN_API int nvrtcGetCUBIN(void*, char* code) {
  std::memcpy(code, kCode, sizeof kCode);
  return 0;
}
STANDIN_API int nvrtcGetPTXSize(void* program, std::size_t* size) {
  return nvrtcGetCUBINSize(program, size);
}
STANDIN_API int nvrtcGetPTX(void* program, char* code) {
  return nvrtcGetCUBIN(program, code);
}
STANDIN_API int nvrtcGetNumSupportedArchs(int* count) {
  *count = 1;
  return 0;
}
STANDIN_API int nvrtcGetSupportedArchs(int* all) {
  *all = 90;
  return 0;
}

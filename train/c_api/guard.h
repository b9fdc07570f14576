// Purpose: what the calls of the C API share: exceptions that become statuses with a message, structs that are copied
// by the size that the caller knows, and what an et_session is.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "elastictrain/elastictrain.h"
#include "elastictrain/session.hpp"

struct et_session {
  elastictrain::Session session;
  std::atomic<int> callbacks = 0;  // of this session that run now
};

namespace elastictrain::c_api {

inline thread_local std::string last_error;

inline et_status complain(et_status status, const char* text) noexcept {
  try {
    last_error = text;
  } catch (const std::bad_alloc&) {
    last_error.clear();
  }
  return status;
}

template <class Function>
et_status guarded(Function function) noexcept {
  try {
    function();
    return ET_OK;
  } catch (const SessionInterrupted& error) {
    return complain(ET_ERROR_INTERRUPTED, error.what());
  } catch (const SessionError& error) {
    return complain(ET_ERROR_SESSION, error.what());
  } catch (const std::exception& error) {
    return complain(ET_ERROR_INTERNAL, error.what());
  } catch (...) {
    return complain(ET_ERROR_INTERNAL, "a callback threw an exception that is not a std::exception");
  }
}

inline et_status null_argument() noexcept {
  return complain(ET_ERROR_INVALID, "a required pointer is NULL");
}

// Reads the caller's struct, with defaults for fields that an older caller does not know. A newer caller is accepted if
// the fields that this library does not know are zero.
template <class Struct>
bool read_struct(const Struct* from, Struct& into) noexcept {
  const std::size_t size = from->size;
  if (size < sizeof(std::size_t)) return false;
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  if (size > sizeof(Struct)) {
    const bool zero = std::all_of(bytes + sizeof(Struct), bytes + size, [](unsigned char byte) { return byte == 0; });
    if (!zero) return false;
  }
  std::memcpy(&into, from, std::min(size, sizeof(Struct)));
  return true;
}

// Never writes beyond the caller's struct.
template <class Struct>
bool write_struct(Struct from, Struct* into) noexcept {
  from.size = into->size;
  if (from.size < sizeof(std::size_t)) return false;
  std::memcpy(into, &from, std::min(from.size, sizeof(Struct)));
  return true;
}

inline et_status unknown_struct() noexcept {
  return complain(ET_ERROR_INVALID,
                  "a struct's size is not set, or it uses fields that this library does not know; "
                  "start from the _INIT macro, or install a newer library");
}

inline DataType to_cpp(et_type type) {
  return static_cast<DataType>(type);
}
static_assert(static_cast<int>(DataType::kBool) == ET_BOOL);

inline std::chrono::milliseconds wait_of(std::uint64_t wait_ms) {
  constexpr std::uint64_t kMost = 1'000'000'000;  // beyond it a deadline would overflow
  return std::chrono::milliseconds(std::min(wait_ms, kMost));
}

// While one exists the session stands: what called the callback goes on in it.
class Calling {
 public:
  explicit Calling(et_session* session) : session_(session) { ++session_->callbacks; }
  ~Calling() { --session_->callbacks; }
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;

 private:
  et_session* const session_;
};

}  // namespace elastictrain::c_api

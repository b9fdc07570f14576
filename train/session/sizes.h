// Purpose: refuses sizes that no memory has, before they are used: a product that wraps around, or a negative number in
// a program's own arithmetic. Failure: SessionError with the call's name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "elastictrain/session.hpp"

namespace elastictrain::session {

inline constexpr std::size_t kMaxBytes = std::size_t{1} << 47;  // of a process

// `each` is above 0.
inline std::size_t bytes_of(const char* call, std::size_t count, std::size_t each) {
  if (count <= kMaxBytes / each) return count * each;
  throw SessionError(std::string(call) + ": " + std::to_string(count) + (each == 1 ? " bytes" : " elements") +
                     " are more than any memory holds; check the size that is passed");
}

}  // namespace elastictrain::session

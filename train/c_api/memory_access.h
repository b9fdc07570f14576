// Purpose: a C program's functions that copy its memory, as the session calls them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "elastictrain/elastictrain.h"
#include "elastictrain/session.hpp"

namespace elastictrain::c_api {

// Calls back with room for a sentence; returns it.
template <typename Copy>
std::string copied_or_why(const Copy& copy) {
  char problem[512] = {};
  if (copy(problem, sizeof problem) == 0) return {};
  problem[sizeof problem - 1] = 0;
  return problem[0] != 0 ? problem : "the program's access to its memory has failed";
}

// Thread: the functions' own affair, as elastictrain.h says. Failure: none.
inline MemoryAccess memory_access(et_memory_read read, et_memory_write write, void* user_data) {
  return {.read =
              [=](std::uint64_t offset, std::span<std::byte> into) {
                return copied_or_why([&](char* problem, std::size_t room) {
                  return read(offset, into.data(), into.size(), problem, room, user_data);
                });
              },
          .write =
              [=](std::uint64_t offset, std::span<const std::byte> from) {
                return copied_or_why([&](char* problem, std::size_t room) {
                  return write(offset, from.data(), from.size(), problem, room, user_data);
                });
              }};
}

}  // namespace elastictrain::c_api

// Purpose: a C program's functions that answer with a sentence, among them those that copy its memory, as the session
// calls them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "elastictrain/elastictrain.h"
#include "elastictrain/session.hpp"

namespace elastictrain::c_api {

// Calls back with room for a sentence; returns it. `failed`: the sentence where the program has none.
template <typename Call>
std::string done_or_why(const Call& call, const char* failed) {
  char problem[512] = {};
  if (call(problem, sizeof problem) == 0) return {};
  problem[sizeof problem - 1] = 0;
  return problem[0] != 0 ? problem : failed;
}

template <typename Copy>
std::string copied_or_why(const Copy& copy) {
  return done_or_why(copy, "the program's access to its memory has failed");
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

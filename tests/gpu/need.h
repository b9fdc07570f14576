// Purpose: shared by the programs of scripts/gpu_check.sh: an error ends the program with its message, ids are passed
// as text, and calls on a non-blocking communicator are polled.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "train/comm/nccl/nccl_library.h"

namespace elastictrain {

inline void need(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(2);
}

template <class T>
T need(Result<T> result) {
  if (!result) need(Status(result.error()));
  return std::move(*result);
}

// From two hexadecimal digits per byte; missing bytes are zero.
inline comm::NcclUniqueId id_of(const std::string& text) {
  comm::NcclUniqueId id{};
  for (std::size_t i = 0; i < comm::kNcclIdBytes && 2 * i + 1 < text.size(); ++i) {
    id.internal[i] = static_cast<char>(std::strtol(text.substr(2 * i, 2).c_str(), nullptr, 16));
  }
  return id;
}

// `code` is what the last call on the communicator returned: waits until that call has ended, as long as `goes_on`. Any
// other call before would be refused, and an event recorded before would not wait for the call's work.
inline int settled(const comm::NcclLibrary& nccl, void* handle, int code, const std::function<bool()>& goes_on) {
  while (code == comm::kNcclInProgress && goes_on()) {
    if (const int asked = nccl.async_error(handle, &code); asked != comm::kNcclSuccess) return asked;
    if (code == comm::kNcclInProgress) std::this_thread::yield();
  }
  return code;
}

}  // namespace elastictrain

// Purpose: state in memory that only the program can copy, as the session's buffers see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "elastictrain/session.hpp"
#include "train/state/state_buffers.h"

// The port to one tensor. Its bytes have no addresses in this process; those of the port stand for them, so that a
// piece knows its offset.
//
// Ownership: the session; its address stays. Thread: any, several at once. Failure: what the program's functions say,
// as kIo. (kUnavailable would be a checkpoint that is not there, without which a run starts at its first step.)

namespace elastictrain::session {

class AccessPort final : public state::MemoryPort {
 public:
  explicit AccessPort(MemoryAccess access) : access_(std::move(access)) {}

  std::byte* begin() { return reinterpret_cast<std::byte*>(this); }

  Status read(const std::byte* device, std::span<std::byte> into) override {
    return status_of(access_.read(offset_of(device), into));
  }
  Status write(std::byte* device, std::span<const std::byte> from) override {
    return status_of(access_.write(offset_of(device), from));
  }

 private:
  std::uint64_t offset_of(const std::byte* device) {
    return reinterpret_cast<std::uintptr_t>(device) - reinterpret_cast<std::uintptr_t>(this);
  }
  static Status status_of(const std::string& problem) {
    if (problem.empty()) return {};
    return Error{ErrorCode::kIo, problem};
  }

  const MemoryAccess access_;
};

}  // namespace elastictrain::session

// Purpose: the program's small values that a joiner has as soon as start() returns: they travel in the header that
// precedes the state. A new value is part of the state from the commit of its step on, as everything that an update
// changes.
//
// Ownership: the program's; copies. Thread: the training thread. Failure: share() throws SessionError beyond the limit.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "train/state/progress.h"

namespace elastictrain::session {

class EarlyValues {
 public:
  static constexpr std::size_t kMaxBytes = 4U << 20;  // of all names and values together

  bool has_room(std::string_view name, std::size_t bytes) const {
    return bytes_besides(name) + name.size() + bytes <= kMaxBytes;
  }
  // In a step: from its commit on. Otherwise now.
  void share(std::string_view name, std::span<const std::byte> bytes, bool in_step);
  // Null: there is none of this name.
  const std::vector<std::byte>* find(std::string_view name) const;

  void commit();
  void discard() { pending_.clear(); }
  void put_into(state::TransferHeader& header) const { header.early = values_; }
  void adopt(const state::TransferHeader& header) { values_ = header.early; }
  const std::vector<state::EarlyValue>& values() const { return values_; }
  // Of a checkpoint: values of the same names are replaced.
  void resume(const std::vector<state::EarlyValue>& saved);

 private:
  using Values = std::vector<state::EarlyValue>;  // in the order of their first appearance, equal on all ranks

  static void set(Values& values, std::string_view name, std::span<const std::byte> bytes);
  std::size_t bytes_besides(std::string_view name) const;

  Values values_;
  Values pending_;  // of the open step
};

}  // namespace elastictrain::session

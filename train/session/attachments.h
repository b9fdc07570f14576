// Purpose: values that the program adds to a checkpoint, by name: they belong to one step, and only a checkpoint of
// that very step has them. A run that resumes gives them back.
// Ownership: the program's; copies. Thread: the training thread. Failure: attach() throws SessionError beyond the
// limit.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "train/state/progress.h"

namespace elastictrain::session {

class Attachments {
 public:
  static constexpr std::size_t kMaxBytes = 8U << 20;  // of all names and values together

  using Values = std::vector<state::EarlyValue>;

  // Of the open step. Replaces the one of that name.
  void attach(std::string_view name, std::span<const std::byte> bytes);
  void commit(Step step);
  void discard() { pending_.clear(); }

  // Of a checkpoint of that step; none if the step had none.
  const Values& of(Step step) const;
  // The program has attached something to an earlier step or this one.
  bool is_used() const { return is_used_; }

  // Of the checkpoint with which this run began.
  void resume(Values values) { resumed_ = std::move(values); }
  const Values& resumed() const { return resumed_; }
  // Null: the checkpoint had none of this name, or there was none.
  const std::vector<std::byte>* find(std::string_view name) const;

 private:
  Values pending_;  // of the open step
  Values values_;
  Step step_ = 0;  // of `values_`
  Values resumed_;
  bool is_used_ = false;
};

}  // namespace elastictrain::session

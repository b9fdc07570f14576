#include "train/comm/op_control.h"

#include <sched.h>

namespace elastictrain::comm {
namespace {

std::size_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<std::size_t>(CPU_COUNT(&set));
}

}  // namespace

OpControl::OpControl(std::chrono::milliseconds timeout, std::size_t ranks_on_machine, std::size_t processors)
    : timeout_(timeout), crowded_(ranks_on_machine > (processors > 0 ? processors : usable_cores())) {
  spins_ = crowded_ ? 20 : 2000;
  yields_ = 500;
}

Status OpControl::check() const {
  if (aborted()) return Error{ErrorCode::kAborted, "the operation was aborted"};
  if (deadline_ != Deadline::max() && std::chrono::steady_clock::now() >= deadline_) {
    return Error{ErrorCode::kTimeout, "a collective operation did not end within " + std::to_string(timeout_.count()) +
                                          " ms; a peer does not take part in it"};
  }
  return {};
}

}  // namespace elastictrain::comm

#include "train/comm/operation.h"

#include <sched.h>

namespace elastictrain::comm {
namespace {

std::string name_of(char kind) {
  if (kind == kShareKind) return "an exchange of bytes";
  if (kind == kind_of_sum(Element::kFloat32)) return "a sum of float32";
  if (kind == kind_of_sum(Element::kFloat16)) return "a sum of float16";
  if (kind == kind_of_sum(Element::kBfloat16)) return "a sum of bfloat16";
  return "another operation";
}

}  // namespace

char kind_of_sum(Element element) {
  switch (element) {
    case Element::kFloat16:
      return 'h';
    case Element::kBfloat16:
      return 'b';
    case Element::kFloat32:
      break;
  }
  return 'a';
}

std::string kinds_text(char here, char there) {
  return here == there ? "" : " It is " + name_of(here) + " here and " + name_of(there) + " there.";
}

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

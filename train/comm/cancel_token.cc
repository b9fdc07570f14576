#include "train/comm/cancel_token.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "train/comm/fork_guard.h"

namespace elastictrain::comm {

CancelToken::CancelToken() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  keep_from_children(fd_);
}

CancelToken::~CancelToken() {
  let_children_have(fd_);
  if (fd_ >= 0) ::close(fd_);
}

void CancelToken::cancel() noexcept {
  cancelled_.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  if (fd_ >= 0) [[maybe_unused]]
    const auto written = ::write(fd_, &one, sizeof one);
}

}  // namespace elastictrain::comm

// Purpose: lets another thread stop a build or a transfer that is blocked in poll(2).
//
// Ownership: outlives the operations that watch it. Thread: any. Failure: none; a token without a descriptor still
// works through cancelled(), but does not wake a blocked thread.
#pragma once

#include <atomic>

#include "train/comm/communicator.h"

namespace elastictrain::comm {

class CancelToken {
 public:
  CancelToken();
  ~CancelToken();
  CancelToken(const CancelToken&) = delete;
  CancelToken& operator=(const CancelToken&) = delete;

  void cancel() noexcept;
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_acquire); }
  // Becomes readable at cancel() and stays readable.
  int fd() const { return fd_; }

 private:
  std::atomic<bool> cancelled_{false};
  int fd_ = -1;
};

}  // namespace elastictrain::comm

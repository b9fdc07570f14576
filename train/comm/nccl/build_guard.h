// Purpose: ends the host plane's calls of a build that is cancelled or takes too long, because those calls take no
// token. Ownership: the build's; it has a thread of its own while it exists. Thread: one. Failure: none.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "train/comm/cancel_token.h"
#include "train/comm/communicator.h"
#include "train/comm/socket.h"

namespace elastictrain::comm {

class BuildGuard {
 public:
  BuildGuard(Communicator& host_plane, const CancelToken& cancel, Deadline deadline);
  ~BuildGuard();
  BuildGuard(const BuildGuard&) = delete;
  BuildGuard& operator=(const BuildGuard&) = delete;

  // The deadline passed.
  bool fired() const { return fired_; }

 private:
  void watch(const CancelToken& cancel);

  Communicator& host_plane_;
  std::mutex mutex_;
  const Deadline deadline_;
  std::atomic<bool> fired_{false};
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace elastictrain::comm

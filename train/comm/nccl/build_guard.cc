#include "train/comm/nccl/build_guard.h"

namespace elastictrain::comm {
namespace {

constexpr std::chrono::milliseconds kWatchInterval{2};

}  // namespace

BuildGuard::BuildGuard(Communicator& host_plane, const CancelToken& cancel, Deadline deadline)
    : host_plane_(host_plane), deadline_(deadline), thread_([this, &cancel] { watch(cancel); }) {}

BuildGuard::~BuildGuard() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BuildGuard::watch(const CancelToken& cancel) {
  std::unique_lock lock(mutex_);
  while (!over_) {
    const bool late = std::chrono::steady_clock::now() > deadline_;
    if (late || cancel.cancelled()) {
      fired_ = late;
      return host_plane_.abort();
    }
    changed_.wait_for(lock, kWatchInterval);
  }
}

}  // namespace elastictrain::comm

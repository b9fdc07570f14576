// Purpose: a lock for one thread at a time with a bounded wait, for std::lock_guard and std::unique_lock. It replaces
// std::timed_mutex because ThreadSanitizer does not see its timed lock and reports false races. Ownership: its holder.
// Thread: any. Failure: false at the limit.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace elastictrain::comm {

class Turn {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    free_.wait(lock, [this] { return !taken_; });
    taken_ = true;
  }
  bool try_lock_for(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    if (!free_.wait_for(lock, limit, [this] { return !taken_; })) return false;
    taken_ = true;
    return true;
  }
  void unlock() {
    const std::lock_guard lock(mutex_);
    taken_ = false;
    free_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable free_;
  bool taken_ = false;
};

}  // namespace elastictrain::comm

#include "train/session/step_buckets.h"

#include <utility>

namespace elastictrain::session {

Reducer::Reducer(Work work) : work_(std::move(work)), thread_([this] { run(); }) {}

Reducer::~Reducer() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void Reducer::submit(Bucket& bucket) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(&bucket);
  }
  changed_.notify_all();
}

Status Reducer::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
  return std::exchange(failure_, Status());
}

void Reducer::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (ending_) return;
    Bucket* const bucket = queue_.front();
    queue_.pop_front();
    if (failure_.ok()) reduce(*bucket, lock);
    changed_.notify_all();
  }
}

void Reducer::reduce(Bucket& bucket, std::unique_lock<std::mutex>& lock) {
  busy_ = true;
  lock.unlock();
  Status status = work_(bucket);
  lock.lock();
  busy_ = false;
  if (!status) failure_ = std::move(status);
}

}  // namespace elastictrain::session

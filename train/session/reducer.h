// Purpose: one thread that reduces buckets in the order they were given, while the training thread computes the next
// ones. Created with the first bucket, so programs that reduce at the end of the pass have no extra thread.
//
// Thread: submit() and wait() on the training thread; the work runs on the reducer's own. Failure: after the first
// failed bucket the rest of the step is dropped, and wait() returns that failure.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "supervisor/protocol/result.h"

namespace elastictrain::session {

class Reducer {
 public:
  using Work = std::function<Status(float*, std::size_t)>;

  explicit Reducer(Work work);
  ~Reducer();  // a bucket in progress must have been aborted before
  void submit(float* data, std::size_t count);
  Status wait();

 private:
  struct Bucket {
    float* data;
    std::size_t count;
  };
  void run();
  void reduce(Bucket bucket, std::unique_lock<std::mutex>& lock);

  Work work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Bucket> queue_;
  bool busy_ = false;
  bool ending_ = false;
  Status failure_;
  std::thread thread_;
};

}  // namespace elastictrain::session

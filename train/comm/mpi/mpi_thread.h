// Purpose: the one thread that joins and leaves MPI. MPI requires the same thread for both; each call waits for all
// ranks of the launch, and nothing can end that wait. A caller waits up to a deadline and continues without the result.
//
// Ownership: one for the process, never destroyed. Thread: any, one call after the other. Failure: false. The work then
// continues in the background, so it must only use what it owns or what is never destroyed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace elastictrain::comm {

class MpiThread {
 public:
  static MpiThread& of_process();

  // True once `work`, and all work requested before it, is done.
  bool run(std::function<void()> work, std::chrono::milliseconds time_limit);

 private:
  MpiThread() = default;
  void start();
  [[noreturn]] void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;
  std::function<void()> work_;  // empty: no work
};

}  // namespace elastictrain::comm

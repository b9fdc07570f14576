// Purpose: the one thread that joins MPI and leaves it. MPI wants both from the same one, each waits for all ranks of
// the launch, and nothing ends that wait: whoever asked waits up to a deadline and goes on without it.
//
// Ownership: one for the process, never destroyed. Thread: any, one call after the other. Failure: false, and the work
// goes on behind its caller's back, so that it may use only what is never destroyed or what it owns.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace elastictrain::comm {

class MpiThread {
 public:
  static MpiThread& of_process();

  // True once `work`, and what was asked for before it, is done.
  bool run(std::function<void()> work, std::chrono::milliseconds time_limit);

 private:
  MpiThread() = default;
  void start();
  [[noreturn]] void serve();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;
  std::function<void()> work_;  // empty: there is none
};

}  // namespace elastictrain::comm

#include "train/comm/mpi/mpi_thread.h"

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace elastictrain::comm {

MpiThread& MpiThread::of_process() {
  static auto& thread = *new MpiThread;
  return thread;
}

bool MpiThread::run(std::function<void()> work, std::chrono::milliseconds time_limit) {
  const auto deadline = std::chrono::steady_clock::now() + time_limit;
  const auto idle = [this] { return !work_; };
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, deadline, idle)) return false;
  work_ = std::move(work);
  if (!std::exchange(started_, true)) start();
  changed_.notify_all();
  return changed_.wait_until(lock, deadline, idle);
}

// Blocks signals: handlers of the program, and threads that MPI starts from here, run as they would without this
// thread.
void MpiThread::start() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([this] { serve(); });
  pthread_setname_np(thread.native_handle(), "et-mpi");
  thread.detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void MpiThread::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return bool(work_); });
    const auto work = work_;
    lock.unlock();
    work();
    lock.lock();
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace elastictrain::comm

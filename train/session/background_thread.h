// Purpose: starts the session's own threads. They block all signals, so that the program's handlers run on the
// program's threads as before, and have a name that `top -H` shows. Failure: a worker that gets no thread can take part
// in nothing; it says so and ends.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <utility>

namespace elastictrain::session {

inline constexpr int kNoThread = 69;  // EX_UNAVAILABLE

template <class Function>
std::thread start_or_end(Function function) {
  try {
    return std::thread(std::move(function));
  } catch (const std::system_error& error) {
    std::fprintf(stderr, "elastictrain: a worker cannot start a thread: %s; raise the limit with ulimit -u\n",
                 error.code().message().c_str());
    std::fflush(nullptr);
    std::_Exit(kNoThread);
  }
}

template <class Function>
std::thread background_thread(const char* name, Function function) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread = start_or_end(std::move(function));
  pthread_setname_np(thread.native_handle(), name);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace elastictrain::session

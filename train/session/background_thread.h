// Purpose: starts the session's own threads. They block all signals, so that the program's handlers run on the
// program's threads as before, and have a name that `top -H` shows.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace elastictrain::session {

template <class Function>
std::thread background_thread(const char* name, Function function) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(function));
  pthread_setname_np(thread.native_handle(), name);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace elastictrain::session

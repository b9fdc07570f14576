// Purpose: signals of the program's process: threads of the session block all of them, and a TERM from any process
// but the agent is a notice.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/types.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

// Starts the session's own threads. They block all signals, so that the program's handlers run on the
// program's threads as before, and have a name that `top -H` shows. Failure: a worker that gets no thread can take part
// in nothing; it says so and ends.

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

// A TERM from any process but the agent is a notice and does not end the worker. A batch system that ends a
// job sends TERM to every process of the job, including workers, and a worker that exits on it takes the newest state
// with it. A user who sends it to one worker wants that worker replaced. The supervisor decides what follows. A TERM
// from the agent, and a second one from any process, end the process as usual.
//
// USR1, where it is a notice of the batch system, does nothing to a worker: its agent gets it, too, and tells it.
//
// A process that the worker has forked ends by TERM of its parent or of the agent alone: the worker needs it until it
// has left, above all one that loads data. A program that handles or ignores TERM itself is left alone, and so are its
// forked processes.
//
// Ownership: at most one at a time in a process. Thread: any one; the handler only sets flags. Failure: none.

class TermNotice {
 public:
  // `agent`: the process whose TERM ends this one; 0 if it is not visible in this PID namespace (any process outside is
  // 0).
  // `usr1_is_notice`: USR1 does nothing where its effect is the system's default.
  explicit TermNotice(pid_t agent, bool usr1_is_notice = false);
  ~TermNotice();
  TermNotice(const TermNotice&) = delete;
  TermNotice& operator=(const TermNotice&) = delete;

  // The sender (0: outside this PID namespace), once.
  std::optional<pid_t> take();
};

// In a process that the worker `worker` has started to do part of its work, by whatever way: TERM of any process but
// the worker, the parent and the agent does nothing, nor do INT, USR1 and USR2 where their effect is the system's
// default.
void ignore_notices(pid_t worker);

}  // namespace elastictrain::session

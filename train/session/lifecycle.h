// Purpose: the state of the session as a whole: whether it has started, failed or ended, and with which outcome.
//
// Ownership: the session; its components report here. Thread: the training thread. Failure: fail() and require() throw
// SessionError; after fail() every later call of the program fails.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <string>

#include "elastictrain/session.hpp"

namespace elastictrain::session {

struct Lifecycle {
  Outcome outcome = Outcome::kRunning;
  bool announced = false;  // as ready to start, with the state and the data that it has described
  bool started = false;
  bool failed = false;
  bool ended = false;
  bool parks = false;            // this worker has ended; its process parks at the boundary
  bool finish_reported = false;  // to the supervisor

  const pid_t process = ::getpid();

  // In a child of the worker, however it was made: it has none of the worker's threads, and memory that the worker
  // shares with others is not its own.
  bool is_inherited() const { return process != ::getpid(); }
  bool is_running() const { return outcome == Outcome::kRunning; }
  template <class Failure = SessionError>
  [[noreturn]] void fail(const std::string& message) {
    failed = true;
    throw Failure(message);
  }
  void require_own_process() const {
    if (!is_inherited()) return;
    throw SessionError("this process was forked from a worker: only the process that created a session can use it");
  }
  void require_not_ended() const {
    require_own_process();
    if (ended) throw SessionError("this session has ended: nothing can be called after finish()");
  }
  bool may_describe() const { return !started && !announced; }
  void require(bool condition, const char* message) const {
    require_not_ended();
    if (!condition) throw SessionError(message);
    if (failed) throw SessionError("this session has failed; end the program");
  }
};

}  // namespace elastictrain::session

// Purpose: where the session as a whole stands: whether it has started, failed or ended, and with which outcome.
//
// Ownership: the session; its components report here. Thread: the training thread. Failure: fail() and require() throw
// SessionError; after fail() every later call of the program fails.
#pragma once

#include <string>

#include "elastictrain/session.hpp"

namespace elastictrain::session {

struct Lifecycle {
  Outcome outcome = Outcome::kRunning;
  bool started = false;
  bool failed = false;
  bool ended = false;
  bool parks = false;            // this worker has ended; its process parks at the boundary
  bool finish_reported = false;  // to the supervisor

  bool is_running() const { return outcome == Outcome::kRunning; }
  [[noreturn]] void fail(const std::string& message) {
    failed = true;
    throw SessionError(message);
  }
  void require(bool condition, const char* message) const {
    if (!condition) throw SessionError(message);
    if (failed) throw SessionError("this session has failed; end the program");
  }
};

}  // namespace elastictrain::session

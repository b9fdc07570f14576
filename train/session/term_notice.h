// Purpose: TERM from somebody else than the agent is a notice, not the end. A batch system that ends a job sends it to
// every process of the job, workers too, and a worker that dies of it takes the newest state with it; who sends it to
// one worker wants that one replaced. What becomes of it is the supervisor's to say. The agent's own TERM, and a second
// one of whomever, end the process as ever.
//
// A program that handles or ignores TERM itself is left alone, and so are processes that the program forks.
//
// Ownership: at most one at a time in a process. Thread: any one; the handler only sets flags. Failure: none.
#pragma once

#include <sys/types.h>

#include <optional>

namespace elastictrain::session {

class TermNotice {
 public:
  // `agent`: whose TERM is an order; 0 where its process is not seen from here, as is everybody's out there.
  explicit TermNotice(pid_t agent);
  ~TermNotice();
  TermNotice(const TermNotice&) = delete;
  TermNotice& operator=(const TermNotice&) = delete;

  // Who sent it (0: not seen from here); once.
  std::optional<pid_t> take();
};

}  // namespace elastictrain::session

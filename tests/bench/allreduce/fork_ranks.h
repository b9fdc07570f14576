// Purpose: one process per rank on this machine, for implementations without a launcher of their own.
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <vector>

namespace elastictrain::bench {

// Returns exit status 0 if every rank returned 0.
inline int fork_ranks(int ranks, const std::function<int(int)>& body) {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t pid = ::_Fork();  // without the handlers of fork(): ranks use the listeners of this process
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::_exit(body(rank));
    }
    pids.push_back(pid);
  }
  int failures = 0;
  for (const pid_t pid : pids) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    failures += status != 0;
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace elastictrain::bench

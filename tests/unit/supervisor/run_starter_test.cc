// Which process a cluster ends for a job that an earlier cluster process has started.
#include "supervisor/cluster/run_starter.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/process/process_identity.h"

namespace elastictrain::cluster {
namespace {

// A process with the pid that the job's run had.
struct Recycled {
  Recycled() {
    const auto handler = ::signal(SIGTERM, SIG_DFL);
    child = ::fork();
    if (child == 0) {
      for (;;) ::pause();
    }
    ::signal(SIGTERM, handler);
    job.id = 1;
    job.pid = child;
  }
  ~Recycled() {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  int signal_of_its_end() const {
    int status = 0;
    REQUIRE(::waitpid(child, &status, WUNTRACED | WCONTINUED) == child);
    return WIFSTOPPED(status) ? WSTOPSIG(status) : WTERMSIG(status);
  }
  pid_t child = 0;
  cluster_core::Job job;
  asio::io_context io;
  RunStarter starter{io, "/clusters/lab", [](const cluster_core::ProcessEnded&) {}};
};

TEST_CASE_FIXTURE(Recycled, "a process that got the pid of an ended run is left alone") {
  for (const char* mark : {"", "another start:77"}) {
    job.process_mark = mark;
    starter.signal(job, SIGTERM);
  }
  ::kill(child, SIGSTOP);  // a TERM that was sent before would end it first
  CHECK(signal_of_its_end() == SIGSTOP);
}

TEST_CASE_FIXTURE(Recycled, "the process that has joined is signalled") {
  job.process_mark = launcher::process_mark(child);
  starter.signal(job, SIGTERM);
  CHECK(signal_of_its_end() == SIGTERM);
}

}  // namespace
}  // namespace elastictrain::cluster

// Signals to processes that may have ended meanwhile.
#include "launcher/process/process_identity.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace launcher = elastictrain::launcher;

TEST_CASE("only the process that was marked gets a signal, and nobody after its end") {
  const auto handler = ::signal(SIGTERM, SIG_DFL);
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  ::signal(SIGTERM, handler);
  const std::string mark = launcher::process_mark(child);
  REQUIRE_FALSE(mark.empty());
  CHECK(launcher::process_mark(child) == mark);
  CHECK(launcher::process_mark(::getpid()) != mark);
  CHECK_FALSE(launcher::signal_marked(child, mark + "0", SIGKILL));  // it had the pid before
  CHECK_FALSE(launcher::signal_marked(child, "", SIGKILL));
  CHECK_FALSE(launcher::signal_marked(0, mark, SIGKILL));
  CHECK_FALSE(launcher::signal_marked(-1, mark, SIGKILL));
  CHECK(::waitpid(child, nullptr, WNOHANG) == 0);
  CHECK(launcher::signal_marked(child, mark, SIGTERM));
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WTERMSIG(status) == SIGTERM);
  CHECK_FALSE(launcher::signal_marked(child, mark, SIGKILL));
  CHECK(launcher::process_mark(child).empty());
}

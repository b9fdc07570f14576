#include "launcher/process/process_identity.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace launcher = elastictrain::launcher;

TEST_CASE("a stat line is read behind a name that holds anything") {
  const auto stat =
      launcher::parse_process_stat("4321 (a) b (c) S 100 4321 77 0 -1 4194304 1 2 3 4 150 50 7 8 20 0 3 0 98765 1 2 3");
  REQUIRE(stat.has_value());
  CHECK(stat->state == 'S');
  CHECK(stat->parent == 100);
  CHECK(stat->session == 77);
  CHECK(stat->cpu_ms == 200 * 1000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK)));
  CHECK(stat->start_ticks == 98765);
}

TEST_CASE("what is no stat line is none") {
  for (const char* text : {"", "1 (x", "1 (x) S", "1 (x) S 1 2 3 4", "no parenthesis at all"}) {
    CHECK_FALSE(launcher::parse_process_stat(text).has_value());
  }
}

TEST_CASE("a process that is stopped by a signal is seen as stopped, and its CPU time grows while it runs") {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::getppid();
  }
  const auto wait_for = [child](const auto& holds) {
    for (int i = 0; i < 2000; ++i) {
      const auto stat = launcher::read_process_stat(child);
      if (stat && holds(*stat)) return true;
      ::usleep(10'000);
    }
    return false;
  };
  CHECK(wait_for([](const auto& stat) { return stat.cpu_ms >= 20 && !stat.stopped(); }));
  ::kill(child, SIGSTOP);
  CHECK(wait_for([](const auto& stat) { return stat.stopped(); }));
  CHECK(launcher::read_process_stat(child)->parent == ::getpid());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK_FALSE(launcher::read_process_stat(child).has_value());
}

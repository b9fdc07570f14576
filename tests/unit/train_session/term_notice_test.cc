// TERM to a worker: from another process than its agent, from the agent, a second one, and to a program that handles
// it.
#include "train/session/term_notice.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_run.h"

namespace elastictrain::test {
namespace {

using session::TermNotice;

// Actions of a process that is neither the worker nor its agent.
pid_t send_term_from_elsewhere(pid_t to) {
  const pid_t sender = ::fork();
  if (sender == 0) ::_exit(::kill(to, SIGTERM) == 0 ? 0 : 1);
  int status = 0;
  REQUIRE(::waitpid(sender, &status, 0) == sender);
  REQUIRE(status == 0);
  return sender;
}

TEST_CASE("TERM from another process than the agent is noted, and the worker trains until it is dismissed") {
  FakeRun run;
  const auto workers = run.spawn_ready(2);
  run.change_to(workers);
  run.wait_step(workers[0], 5);
  const pid_t sender = send_term_from_elsewhere(run[workers[1]].pid);
  run.wait_until([&] { return run[workers[1]].notes.contains("elastictrain.term"); }, "the note");
  CHECK(run[workers[1]].notes["elastictrain.term"] == "from process " + std::to_string(sender));
  run.wait_step(workers[1], run[workers[1]].heartbeat.step + 10);
  run.change_to({workers[0]});
  run.wait_exit(workers[1]);
  CHECK(run[workers[1]].exit_code == kExitLeft);
  CHECK_FALSE(run[workers[0]].notes.contains("elastictrain.term"));
  run.stop_and_check();
}

TEST_CASE("a second TERM ends a worker") {
  FakeRun run;
  const WorkerId worker = run.spawn_ready();
  send_term_from_elsewhere(run[worker].pid);
  run.wait_until([&] { return run[worker].notes.contains("elastictrain.term"); }, "the note");
  send_term_from_elsewhere(run[worker].pid);
  run.wait_exit(worker);
  CHECK(run[worker].exit_code == 128 + SIGTERM);
}

TEST_CASE("TERM from its agent ends a worker at once") {
  FakeRun run;
  const WorkerId worker = run.spawn_ready();
  ::kill(run[worker].pid, SIGTERM);
  run.wait_exit(worker);
  CHECK(run[worker].exit_code == 128 + SIGTERM);
  CHECK_FALSE(run[worker].notes.contains("elastictrain.term"));
}

TEST_CASE("a program that has its own way with TERM keeps it, and one that had none gets that back") {
  ::signal(SIGTERM, SIG_IGN);
  {
    TermNotice notice(1);
    ::raise(SIGTERM);
    CHECK_FALSE(notice.take());
  }
  const bool is_ignored = ::signal(SIGTERM, SIG_DFL) == SIG_IGN;
  CHECK(is_ignored);
  {
    TermNotice notice(1);
    CHECK_FALSE(notice.take());
    ::raise(SIGTERM);
    CHECK(notice.take() == ::getpid());
    CHECK_FALSE(notice.take());
  }
  const bool is_given_back = ::signal(SIGTERM, SIG_DFL) == SIG_DFL;
  CHECK(is_given_back);
}

TEST_CASE("a process that the program has forked ends with TERM as ever") {
  ::signal(SIGTERM, SIG_DFL);  // the test framework has a handler
  TermNotice notice(1);
  const pid_t child = ::fork();
  if (child == 0) {
    ::raise(SIGTERM);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK_FALSE(notice.take());
}

}  // namespace
}  // namespace elastictrain::test

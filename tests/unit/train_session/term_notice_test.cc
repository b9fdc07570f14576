// TERM to a worker: from another process than its agent, from the agent, a second one, and to a program that handles
// it.
#include "train/session/process_signals.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <utility>

#include "fake_run.h"

namespace elastictrain::test {
namespace {

using session::TermNotice;

// Actions of a process that is neither the worker nor its agent.
pid_t send_from_elsewhere(pid_t to, int number) {
  const pid_t sender = ::fork();
  if (sender == 0) ::_exit(::kill(to, number) == 0 ? 0 : 1);
  int status = 0;
  REQUIRE(::waitpid(sender, &status, 0) == sender);
  REQUIRE(status == 0);
  return sender;
}

pid_t send_term_from_elsewhere(pid_t to) {
  return send_from_elsewhere(to, SIGTERM);
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

TEST_CASE("USR1 does nothing where it is a notice, and what it does to the program otherwise stays") {
  ::signal(SIGUSR1, SIG_DFL);
  {
    TermNotice notice(1);
    const bool is_left_alone = ::signal(SIGUSR1, SIG_DFL) == SIG_DFL;
    CHECK(is_left_alone);
  }
  {
    TermNotice notice(1, true);
    ::raise(SIGUSR1);
    CHECK_FALSE(notice.take());
  }
  const bool is_given_back = ::signal(SIGUSR1, SIG_IGN) == SIG_DFL;
  CHECK(is_given_back);
  {
    TermNotice notice(1, true);
    const bool is_the_programs = ::signal(SIGUSR1, SIG_IGN) == SIG_IGN;
    CHECK(is_the_programs);
  }
  ::signal(SIGUSR1, SIG_DFL);
}

// A process that waits for signals, until the pipe is closed: then it ends with 7.
class Forked {
 public:
  explicit Forked(const std::function<void()>& begin = [] {}) {
    REQUIRE(::pipe(ready_) == 0);
    REQUIRE(::pipe(end_) == 0);
    pid_ = ::fork();
    if (pid_ == 0) child(begin);
    ::close(ready_[1]);
    ::close(end_[0]);
    char byte = 0;
    REQUIRE(::read(ready_[0], &byte, 1) == 1);
  }
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;
  ~Forked() {
    ::close(ready_[0]);
    ::close(end_[1]);
  }
  pid_t pid() const { return pid_; }
  int status_at_end() {
    ::close(std::exchange(end_[1], -1));
    int status = 0;
    REQUIRE(::waitpid(pid_, &status, 0) == pid_);
    return status;
  }

 private:
  [[noreturn]] void child(const std::function<void()>& begin) const {
    ::close(end_[1]);
    begin();
    char byte = 0;
    if (::write(ready_[1], &byte, 1) != 1) ::_exit(1);
    while (::read(end_[0], &byte, 1) < 0 && errno == EINTR) continue;
    ::_exit(7);
  }
  int ready_[2] = {};
  int end_[2] = {};
  pid_t pid_ = 0;
};

TEST_CASE(
    "a process that the program has forked ends by TERM of its parent, not by that of a process that ends a job") {
  ::signal(SIGTERM, SIG_DFL);  // the test framework has a handler
  TermNotice notice(1);
  Forked survivor;
  send_term_from_elsewhere(survivor.pid());
  send_term_from_elsewhere(survivor.pid());
  CHECK(WEXITSTATUS(survivor.status_at_end()) == 7);
  Forked ended;
  ::kill(ended.pid(), SIGTERM);
  const int status = ended.status_at_end();
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
  CHECK_FALSE(notice.take());
}

TEST_CASE(
    "a process that helps a worker ignores what every process of a job gets, its parent's and the worker's TERM "
    "aside") {
  ::signal(SIGTERM, SIG_DFL);
  const auto helps = [](pid_t worker) {
    return [worker] {
      ::signal(SIGINT, SIG_DFL);  // as above
      session::ignore_notices(worker);
    };
  };
  Forked survivor(helps(::getpid()));
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) send_from_elsewhere(survivor.pid(), number);
  CHECK(WEXITSTATUS(survivor.status_at_end()) == 7);
  Forked ended(helps(::getpid()));
  ::kill(ended.pid(), SIGTERM);
  CHECK(WTERMSIG(ended.status_at_end()) == SIGTERM);
}

TEST_CASE("a program's own way with USR1 stays in a process that helps") {
  Forked ended([] {
    ::signal(SIGUSR1, [](int) { ::_exit(9); });
    session::ignore_notices(::getppid());
  });
  send_from_elsewhere(ended.pid(), SIGUSR1);
  CHECK(WEXITSTATUS(ended.status_at_end()) == 9);
}

}  // namespace
}  // namespace elastictrain::test

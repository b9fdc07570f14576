// Stacks of real processes. The backtrace part needs eu-stack or gdb, and a system that permits it.
#include "launcher/agent/worker_queries.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/skip.h"
#include "tests/support/temporary_directory.h"

namespace launcher = elastictrain::launcher;
using std::chrono::milliseconds;
using StackLines = std::vector<std::string>;

namespace {

constexpr milliseconds kPatience{20'000};

// Waits forever in a function that a backtrace can show.
[[gnu::noinline]] void wait_in_a_named_place() {
  for (;;) ::pause();
}

struct Sleeper {
  Sleeper() {
    pid = ::fork();
    if (pid == 0) {
      wait_in_a_named_place();
      ::_exit(0);
    }
  }
  ~Sleeper() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  pid_t pid = 0;
};

StackLines capture(pid_t pid, milliseconds limit) {
  asio::io_context io;
  std::optional<StackLines> lines;
  launcher::StackCapture::start(io, pid, limit, [&](StackLines found) {
    CHECK_FALSE(lines.has_value());
    lines = std::move(found);
  });
  io.run_for(kPatience);
  REQUIRE(lines.has_value());
  return *lines;
}

bool any_line(const StackLines& lines, const std::string& part) {
  for (const auto& line : lines) {
    if (line.find(part) != std::string::npos) return true;
  }
  return false;
}

// A directory in front of PATH whose eu-stack is this script.
struct FakeTool {
  explicit FakeTool(const std::string& script) : old_path(::getenv("PATH")) {
    directory.write_script("eu-stack", script);
    ::setenv("PATH", (directory.path + ":" + old_path).c_str(), 1);
  }
  ~FakeTool() { ::setenv("PATH", old_path.c_str(), 1); }
  std::string old_path;
  elastictrain::test::TemporaryDirectory directory;
};

}  // namespace

TEST_CASE("the kernel's part names the process, its threads and what they wait in") {
  const Sleeper sleeper;
  StackLines lines;
  for (int i = 0; i < 1000 && !any_line(lines, "sleeping"); ++i) {
    ::usleep(10'000);
    lines = launcher::describe_threads(sleeper.pid);
  }
#ifdef __SANITIZE_THREAD__
  const std::size_t threads = 2;  // one is the sanitizer's
#else
  const std::size_t threads = 1;
#endif
  REQUIRE(lines.size() == 1 + threads);
  CHECK(lines[0].starts_with("process " + std::to_string(sleeper.pid) + " \"launcher_unit\": sleeping, " +
                             (threads == 1 ? "1 thread" : std::to_string(threads) + " threads")));
  CHECK(lines[1].starts_with("thread " + std::to_string(sleeper.pid) + " \"launcher_unit\": sleeping"));
}

TEST_CASE("a stopped process is reported as stopped") {
  const Sleeper sleeper;
  ::kill(sleeper.pid, SIGSTOP);
  StackLines lines;
  for (int i = 0; i < 1000 && !any_line(lines, "stopped"); ++i) {
    ::usleep(10'000);
    lines = launcher::describe_threads(sleeper.pid);
  }
  CHECK(any_line(lines, "stopped by a signal"));
}

TEST_CASE("a missing process is reported as gone") {
  CHECK(launcher::describe_threads(2'000'000'000) == StackLines{"process 2000000000 is gone"});
}

TEST_CASE("a backtrace shows where the program waits, and the program continues") {
  const Sleeper sleeper;
  if (launcher::backtrace_command(sleeper.pid).empty()) {
    elastictrain::tests::skip_aloud("neither eu-stack nor gdb is installed");
    return;
  }
  ::usleep(50'000);
  const auto lines = capture(sleeper.pid, kPatience);
  if (any_line(lines, "not permitted")) {
    elastictrain::tests::skip_aloud("this system does not let a process look into another one");
    return;
  }
  CHECK(any_line(lines, "pause"));
  CHECK(::kill(sleeper.pid, 0) == 0);
}

TEST_CASE("a tool that hangs is killed at the limit, and its output is kept") {
  const Sleeper sleeper;
  const FakeTool tool("echo '#0 somewhere'; trap '' TERM; sleep 1000 & wait; wait");
  const auto lines = capture(sleeper.pid, milliseconds(500));
  CHECK(any_line(lines, "process " + std::to_string(sleeper.pid)));
  CHECK(any_line(lines, "#0 somewhere"));
  CHECK(any_line(lines, "took too long"));
}

TEST_CASE("a tool that fails leaves its reason") {
  const Sleeper sleeper;
  const FakeTool tool("echo 'eu-stack: dwfl_linux_proc_attach: Operation not permitted' >&2; exit 2");
  CHECK(any_line(capture(sleeper.pid, kPatience), "the backtrace failed: eu-stack: dwfl_linux_proc_attach"));
}

TEST_CASE("a tool that prints without end costs bounded lines") {
  const Sleeper sleeper;
  const FakeTool tool("yes 'a frame'");
  CHECK(capture(sleeper.pid, milliseconds(300)).size() == 400);
}

#include "launcher/process/process.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <filesystem>
#include <fstream>
#include <optional>

#include "launcher/agent_program.h"
#include "launcher/process/command.h"
#include "launcher/process/session_sweep.h"

namespace launcher = elastictrain::launcher;
using launcher::Command;
using launcher::CommandEnd;
using launcher::CommandSpec;
using launcher::ExitStatus;
using launcher::Process;
using launcher::ProcessSpec;

namespace {

constexpr std::chrono::seconds kLimit{20};

CommandEnd run(CommandSpec spec) {
  asio::io_context io;
  std::optional<CommandEnd> end;
  auto command = Command::start(io, std::move(spec), nullptr, [&](CommandEnd e) { end = std::move(e); });
  REQUIRE(command.ok());
  io.run_for(kLimit);
  REQUIRE(end.has_value());
  return *end;
}

CommandEnd shell(const std::string& script) {
  return run({.argv = {"sh", "-c", script}});
}

// A zombie that another process has still to reap counts as gone.
bool alive(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  return std::getline(file, text) && text.find(") Z ") == std::string::npos;
}

bool gone(pid_t pid) {
  for (int i = 0; i < 500 && alive(pid); ++i) ::usleep(10'000);
  return !alive(pid);
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

}  // namespace

TEST_CASE("exit statuses and signals are distinguished") {
  CHECK(shell("exit 0").status.exit_code == 0);
  CHECK(shell("exit 42").status.exit_code == 42);
  CHECK(shell("kill -9 $$").status.signal == SIGKILL);
  CHECK(launcher::describe(ExitStatus{3, 0}) == "exit status 3");
  CHECK(launcher::describe(ExitStatus{0, 9}) == "signal 9 (SIGKILL)");
}

TEST_CASE("both streams and the input pass") {
  CommandSpec spec{.argv = {"sh", "-c", "cat; echo err >&2"}};
  spec.input = std::string(300'000, 'x');
  const auto end = run(spec);
  CHECK(end.output == spec.input);
  CHECK(end.error_text == "err\n");
}

TEST_CASE("a program that cannot be run is an error of spawn") {
  asio::io_context io;
  const auto message = [&](ProcessSpec spec) {
    auto process = Process::spawn(io, spec, nullptr);
    REQUIRE_FALSE(process.ok());
    return process.error().message;
  };
  CHECK(message({.argv = {"/nonexistent/program"}}) ==
        "cannot run \"/nonexistent/program\": No such file or directory");
  CHECK(message({.argv = {"/etc/passwd"}}) == "cannot run \"/etc/passwd\": Permission denied");
  CHECK(message({.argv = {"true"}, .working_directory = "/nonexistent"}) ==
        "cannot run \"true\" in directory /nonexistent: No such file or directory");
  CHECK(message({}) == "there is no program to run");
}

TEST_CASE("the child looks its program up in its own PATH and runs in its directory") {
  asio::io_context io;
  ProcessSpec spec{.argv = {"pwd"}, .environment = {"PATH=/nonexistent"}};
  CHECK_FALSE(Process::spawn(io, spec, nullptr).ok());
  const auto end = run({.argv = {"sh", "-c", "cd / && pwd"}});
  CHECK(end.output == "/\n");
}

TEST_CASE("a child inherits no descriptor, no ignored signal and no blocked signal") {
  const int leak = ::open("/dev/null", O_RDONLY);
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t block;
  sigemptyset(&block);
  sigaddset(&block, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &block, nullptr);
  const auto fds = shell("ls /proc/self/fd | sort -n | tail -n +4 | wc -l");
  CHECK(fds.output == "1\n");  // the one of ls itself
  const auto signals = shell("grep -E 'Sig(Ign|Blk)' /proc/self/status");
  ::sigprocmask(SIG_UNBLOCK, &block, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::close(leak);
  CHECK(signals.output == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_CASE("what a child leaves in its group ends with it") {
  const auto end = shell("sleep 1000 </dev/null >/dev/null 2>&1 & echo $!");
  CHECK(gone(std::stoi(end.output)));
}

// The loop takes an event of a pipe that was closed meanwhile for one of the descriptor that was opened next.
TEST_CASE("a process that follows on one that ended is not taken for ended by a late event of its pipes") {
  asio::io_context io;
  std::unique_ptr<Process> first;
  std::unique_ptr<Process> second;
  std::optional<ExitStatus> end;
  const auto start = [&](const std::string& script, Process::ExitHandler on_exit) {
    ProcessSpec spec{.argv = {"sh", "-c", script}, .environment = launcher::own_environment()};
    spec.new_group = true;
    spec.kill_group_at_exit = true;
    auto process = Process::spawn(io, spec, std::move(on_exit));
    REQUIRE(process.ok());
    return std::move(*process);
  };
  // Its end is the first event. The end of its pipes, which a process of another group keeps open for longer, is the
  // second.
  first = start("setsid sleep 0.1 & exit 0", [&](ExitStatus) {
    first->output().close();
    second = start("sleep 0.2; exit 5", [&](ExitStatus status) { end = status; });
  });
  ::usleep(400'000);
  io.run_for(kLimit);
  REQUIRE(end.has_value());
  CHECK(end->signal == 0);
  CHECK(end->exit_code == 5);
}

TEST_CASE("destroying a running process kills and reaps it with its group") {
  asio::io_context io;
  auto process = Process::spawn(
      io, {.argv = {"sh", "-c", "sleep 1000 & wait"}, .environment = launcher::own_environment(), .new_group = true},
      nullptr);
  REQUIRE(process.ok());
  const pid_t pid = (*process)->pid();
  CHECK(alive(pid));
  process->reset();
  CHECK_FALSE(alive(pid));
}

TEST_CASE("a child with a death signal ends with its parent") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    asio::io_context io;
    auto child = Process::spawn(
        io, {.argv = {"sleep", "1000"}, .environment = launcher::own_environment(), .parent_death_signal = SIGTERM},
        nullptr);
    const pid_t pid = child.ok() ? (*child)->pid() : -1;
    if (::write(ends[1], &pid, sizeof pid) < 0) ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  }
  pid_t child = -1;
  REQUIRE(::read(ends[0], &child, sizeof child) == sizeof child);
  REQUIRE(child > 0);
  ::waitpid(parent, nullptr, 0);
  CHECK(gone(child));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_CASE("a command past its deadline gets TERM, then KILL, and the result reports it") {
  CommandSpec spec{.argv = {"sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"}};
  spec.deadline = std::chrono::milliseconds(200);
  const auto end = run(spec);
  CHECK(end.timed_out);
  CHECK(end.status.signal == SIGKILL);
}

TEST_CASE("a command whose grandchild holds the pipes ends all the same") {
  const auto end = shell("setsid sleep 1000 & echo $!");
  CHECK(end.status.exit_code == 0);
  const pid_t holder = std::stoi(end.output);
  ::kill(holder, SIGKILL);
}

TEST_CASE("a loop that is destroyed takes its running commands along") {
  pid_t pid = -1;
  {
    asio::io_context io;
    auto command = Command::start(io, {.argv = {"sleep", "1000"}}, nullptr, [](CommandEnd) {});
    REQUIRE(command.ok());
    pid = (*command)->pid();
    command->reset();
    io.run_for(std::chrono::milliseconds(10));
  }
  CHECK_FALSE(alive(pid));
}

TEST_CASE("two hundred commands leave descriptors and children as they were") {
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 200; ++i) REQUIRE(run({.argv = {"true"}}).status.exit_code == 0);
  CHECK(open_descriptors() == before);
  CHECK(launcher::descendants(::getpid()).empty());
}

TEST_CASE("descendants are found across sessions") {
  asio::io_context io;
  auto process = Process::spawn(io,
                                {.argv = {"sh", "-c", "setsid sleep 1000 & echo ready; wait"},
                                 .environment = launcher::own_environment(),
                                 .new_session = true},
                                nullptr);
  REQUIRE(process.ok());
  char line[16];
  REQUIRE((*process)->output().read_some(asio::buffer(line)) > 0);
  std::vector<pid_t> found;
  for (int i = 0; i < 500 && found.size() < 2; ++i) {
    found = launcher::descendants(::getpid());
    ::usleep(10'000);
  }
  CHECK(found.size() == 2);
  for (const pid_t pid : found) ::kill(pid, SIGKILL);
}

TEST_CASE("a changed environment holds every name once, the last value") {
  const auto merged = launcher::merge_environment({"A=1", "B=2", "A=3"}, {"B=4", "C=5=6", "D"});
  CHECK(merged == std::vector<std::string>{"A=3", "B=4", "C=5=6", "D"});
}

TEST_CASE("the last line of a text is the last that is not empty") {
  CHECK(launcher::last_line("") == "");
  CHECK(launcher::last_line("\n\n") == "");
  CHECK(launcher::last_line("one") == "one");
  CHECK(launcher::last_line("one\ntwo\n\r\n") == "two");
}

TEST_CASE("the build id is stable, short and fit for a path") {
  CHECK(launcher::build_id() == launcher::build_id());
  CHECK(launcher::build_id().starts_with(ELASTICTRAIN_VERSION "-"));
  CHECK(launcher::build_id().size() == std::string(ELASTICTRAIN_VERSION).size() + 17);
  CHECK(launcher::self_path().ends_with("launcher_unit"));
}

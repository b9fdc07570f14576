#include "launcher/agent/helper_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "launcher/process/session_sweep.h"

namespace elastictrain::launcher {

void point_at_null(std::initializer_list<int> streams) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  for (const int stream : streams) ::dup2(null, stream);
  if (null > STDERR_FILENO) ::close(null);
}

namespace {

[[noreturn]] void act_as_proxy_for(pid_t agent) {
  int status = 0;
  while (::waitpid(agent, &status, 0) < 0 && errno == EINTR) {
  }
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

}  // namespace

Status leave_launch_proxy(bool tied) {
  const pid_t launched = ::getpid();
  const pid_t agent = ::fork();
  if (agent < 0)
    return Error{ErrorCode::kUnavailable, std::string("no process for the agent: ") + std::strerror(errno)};
  if (agent > 0) act_as_proxy_for(agent);
  if (!tied) return {};
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launched) ::raise(SIGKILL);
  return {};
}

void outlive_launch_proxy() {
  ::prctl(PR_SET_PDEATHSIG, 0);
}

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kLookPeriodMs = 100;
constexpr std::chrono::milliseconds kSecondLook{2'000};

// True: the pipe has closed or data arrived through it in time.
bool is_alive(int pipe, std::chrono::milliseconds limit, bool& ended) {
  const auto deadline = Clock::now() + limit;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd input{pipe, POLLIN, 0};
    const int ready = left.count() > 0 ? ::poll(&input, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    char bytes[256];
    const ssize_t count = ::read(pipe, bytes, sizeof bytes);
    ended = count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN);
    return true;
  }
}

void await_end_of_agent(int pipe, pid_t agent, std::chrono::milliseconds silence_limit) {
  bool ended = false;
  while (!ended) {
    if (is_alive(pipe, silence_limit, ended)) continue;
    // If all processes were frozen together, the agent has had no chance to write yet.
    if (is_alive(pipe, kSecondLook, ended)) continue;
    ::kill(agent, SIGKILL);
    return;
  }
}

[[noreturn]] void guard(int pipe, pid_t agent, std::chrono::milliseconds grace,
                        std::chrono::milliseconds silence_limit) {
  ::setsid();
  ::signal(SIGTERM, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  ::prctl(PR_SET_NAME, "et-guardian");
  // They may be ssh's: a process that holds them keeps ssh from exiting.
  point_at_null({STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO});
  await_end_of_agent(pipe, agent, silence_limit);
  const auto deadline = Clock::now() + grace;
  while (Clock::now() < deadline && !session_members(agent).empty()) ::poll(nullptr, 0, kLookPeriodMs);
  kill_session(agent);
  ::_exit(0);
}

}  // namespace

Guardian Guardian::start(std::chrono::milliseconds grace, std::chrono::milliseconds silence_limit) {
  int ends[2];
  if (::getsid(0) != ::getpid() || ::pipe2(ends, O_CLOEXEC) != 0) return Guardian(-1);
  const pid_t agent = ::getpid();
  const pid_t guardian = ::fork();
  if (guardian == 0) {
    ::close(ends[1]);
    guard(ends[0], agent, grace, silence_limit);
  }
  ::close(ends[0]);
  ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
  return Guardian(ends[1]);
}

void Guardian::sign_of_life() {
  if (pipe_ >= 0) [[maybe_unused]]
    const auto written = ::write(pipe_, "", 1);
}

}  // namespace elastictrain::launcher

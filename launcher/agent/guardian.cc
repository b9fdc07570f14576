#include "launcher/agent/guardian.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>

#include "launcher/session_sweep.h"

namespace elastictrain::launcher {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kLookPeriodMs = 100;

// The agent's streams may be ssh's: whoever holds them keeps ssh from ending.
void let_go_of_streams() {
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  if (null > 2) ::close(null);
}

void await_end_of(int pipe) {
  char byte = 0;
  while (::read(pipe, &byte, 1) < 0 && errno == EINTR) {
  }
}

[[noreturn]] void guard(int pipe, pid_t session, std::chrono::milliseconds grace) {
  ::setsid();
  ::signal(SIGTERM, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  ::prctl(PR_SET_NAME, "et-guardian");
  let_go_of_streams();
  await_end_of(pipe);
  const auto deadline = Clock::now() + grace;
  while (Clock::now() < deadline && !session_members(session).empty()) ::poll(nullptr, 0, kLookPeriodMs);
  kill_session(session);
  ::_exit(0);
}

}  // namespace

void start_guardian(std::chrono::milliseconds grace) {
  int ends[2];
  if (::getsid(0) != ::getpid() || ::pipe2(ends, O_CLOEXEC) != 0) return;
  const pid_t agent = ::getpid();
  const pid_t guardian = ::fork();
  if (guardian == 0) {
    ::close(ends[1]);
    guard(ends[0], agent, grace);
  }
  // The writing end stays open until the agent is gone, however it goes; workers do not inherit it.
  ::close(ends[0]);
}

}  // namespace elastictrain::launcher

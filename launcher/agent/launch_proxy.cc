#include "launcher/agent/launch_proxy.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace elastictrain::launcher {
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

}  // namespace elastictrain::launcher

#include "launcher/agent/agent.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>

#include "launcher/agent/agent_service.h"
#include "launcher/agent/bootstrap_reader.h"
#include "launcher/agent/guardian.h"

namespace elastictrain::launcher {
namespace {

constexpr std::chrono::milliseconds kBootstrapTimeout{30'000};
// For the last frames to reach the supervisor.
constexpr std::chrono::milliseconds kFlushTimeout{2'000};

int fail(const Error& error) {
  std::fprintf(stderr, "elastictrain agent: %s\n", error.message.c_str());
  return kAgentFailed;
}

// An agent outlives the terminal and the ssh that started it.
void detach() {
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);
  ::setsid();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void close_standard_input() {
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0) return;
  ::dup2(null, STDIN_FILENO);
  ::close(null);
}

int serve(protocol::AgentBootstrap bootstrap, PrivateDirectory directory) {
  asio::io_context io;
  AgentService service(io, std::move(bootstrap), std::move(directory));
  service.start();
  while (!service.finished() && io.run_one() > 0) {
  }
  io.run_for(kFlushTimeout);
  return service.exit_status();
}

}  // namespace

int run_agent() {
  detach();
  auto bootstrap = read_bootstrap(STDIN_FILENO, kBootstrapTimeout);
  if (!bootstrap) return fail(bootstrap.error());
  close_standard_input();
  auto directory = PrivateDirectory::create(default_directory_base());
  if (!directory) return fail(directory.error());
  start_guardian(std::chrono::milliseconds(bootstrap->grace_ms));
  return serve(std::move(*bootstrap), std::move(*directory));
}

}  // namespace elastictrain::launcher

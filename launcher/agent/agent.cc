#include "launcher/agent/agent.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>

#include "launcher/agent/agent_identity.h"
#include "launcher/agent/agent_service.h"
#include "launcher/agent/bootstrap_reader.h"
#include "launcher/agent/guardian.h"
#include "launcher/process.h"

namespace elastictrain::launcher {
namespace {

constexpr std::chrono::milliseconds kBootstrapTimeout{30'000};
// For the last frames to reach the supervisor.
constexpr std::chrono::milliseconds kFlushTimeout{2'000};
// Beyond the time in which it would have ended by itself.
constexpr std::chrono::milliseconds kAgentMayHang{1'000};

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

int serve(protocol::AgentBootstrap bootstrap, PrivateDirectory directory, Guardian guardian) {
  asio::io_context io;
  AgentService service(io, std::move(bootstrap), std::move(directory), guardian);
  service.start();
  while (!service.finished() && io.run_one() > 0) {
  }
  io.run_for(kFlushTimeout);
  return service.exit_status();
}

}  // namespace

int run_agent() {
  detach();
  raise_descriptor_limit();
  auto bootstrap = read_bootstrap(STDIN_FILENO, kBootstrapTimeout);
  if (!bootstrap) return fail(bootstrap.error());
  close_standard_input();
  auto directory = PrivateDirectory::create(default_directory_base());
  if (!directory) return fail(directory.error());
  const std::chrono::milliseconds grace(bootstrap->grace_ms);
  const std::chrono::milliseconds orphan_grace(bootstrap->orphan_grace_ms);
  const Guardian guardian = Guardian::start(grace, orphan_grace + grace + kAgentMayHang);
  write_identity(directory->path(), *bootstrap);
  if (const int ended = end_older_agents(directory->path(), *bootstrap); ended > 0) {
    std::fprintf(stderr, "elastictrain agent: ended %d older agent(s) of this run on this host\n", ended);
  }
  return serve(std::move(*bootstrap), std::move(*directory), guardian);
}

}  // namespace elastictrain::launcher

#include "launcher/agent/agent.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <cstdio>
#include <optional>

#include "launcher/agent/agent_identity.h"
#include "launcher/agent/agent_service.h"
#include "launcher/agent/bootstrap_reader.h"
#include "launcher/agent/guardian.h"
#include "launcher/agent/launch_proxy.h"
#include "launcher/agent/null_streams.h"
#include "launcher/mpi/place.h"
#include "launcher/process/core_files.h"
#include "launcher/process/process.h"
#include "supervisor/protocol/counted.h"

namespace elastictrain::launcher {
namespace {

constexpr std::chrono::milliseconds kBootstrapTimeout{30'000};
// For the last frames to reach the supervisor.
constexpr std::chrono::milliseconds kFlushTimeout{2'000};
// In addition to the time in which it would have exited by itself.
constexpr std::chrono::milliseconds kAgentMayHang{1'000};

int fail(const Error& error) {
  std::fprintf(stderr, "elastictrain agent: %s\n", error.message.c_str());
  return kAgentFailed;
}

// The leader of a group, as mpirun makes every rank, must leave it before it can create a session.
void lead_session() {
  if (::setsid() >= 0 || ::getsid(0) == ::getpid()) return;
  ::setpgid(0, ::getpgid(::getppid()));
  ::setsid();
}

void ignore_signals() {
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);
  // MPICH's launcher notifies every rank in this way that another one has ended. Where it is a notice, the service
  // handles it.
  ::signal(SIGUSR1, SIG_IGN);
}

// An agent outlives the terminal and the ssh that started it.
void detach() {
  lead_session();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

struct Start {
  protocol::AgentBootstrap bootstrap;
  std::optional<MpiPlace> pool;
};

Result<Start> bootstrap_of_start(const std::string& pool_file) {
  if (pool_file.empty()) {
    auto bootstrap = read_bootstrap(STDIN_FILENO, kBootstrapTimeout);
    if (!bootstrap) return bootstrap.error();
    return Start{std::move(*bootstrap), std::nullopt};
  }
  auto place = mpi_place(own_environment());
  if (!place) return Error{ErrorCode::kInvalid, "no MPI launch has given this process a rank"};
  auto bootstrap = read_pool_bootstrap(pool_file, place->rank);
  if (!bootstrap) return bootstrap.error();
  return Start{std::move(*bootstrap), std::move(place)};
}

int serve(Start start, PrivateDirectory directory, Guardian guardian) {
  asio::io_context io;
  AgentService service(io, std::move(start.bootstrap), std::move(directory), guardian, std::move(start.pool));
  service.start();
  while (!service.finished() && io.run_one() > 0) {
  }
  io.run_for(kFlushTimeout);
  return service.exit_status();
}

}  // namespace

int run_agent(const AgentStart& how) {
  keep_memory_private();
  ignore_signals();
  if (how.outlives_launch || !how.pool_file.empty()) {
    if (const Status apart = leave_launch_proxy(!how.pool_file.empty()); !apart) return fail(apart.error());
  }
  detach();
  raise_descriptor_limit();
  auto start = bootstrap_of_start(how.pool_file);
  if (!start) return fail(start.error());
  point_at_null({STDIN_FILENO});
  auto directory = PrivateDirectory::create(default_directory_base());
  if (!directory) return fail(directory.error());
  const protocol::AgentBootstrap& bootstrap = start->bootstrap;
  const std::chrono::milliseconds grace(bootstrap.grace_ms);
  const std::chrono::milliseconds orphan_grace(bootstrap.orphan_grace_ms);
  const Guardian guardian = Guardian::start(grace, orphan_grace + grace + kAgentMayHang);
  write_identity(directory->path(), bootstrap);
  if (const int ended = end_older_agents(directory->path(), bootstrap); ended > 0) {
    std::fprintf(stderr, "elastictrain agent: ended %s of this run on this host\n",
                 protocol::counted(static_cast<std::uint64_t>(ended), "older agent").c_str());
  }
  return serve(std::move(*start), std::move(*directory), guardian);
}

}  // namespace elastictrain::launcher

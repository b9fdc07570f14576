#include "launcher/agent/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>

#include "launcher/agent/agent_service.h"
#include "launcher/agent/helper_processes.h"
#include "launcher/agent/private_directory.h"
#include "launcher/mpi/mpi_rank.h"
#include "launcher/process/process.h"
#include "launcher/process/process_attributes.h"
#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/display_text.h"
#include "supervisor/protocol/limits.h"

namespace elastictrain::launcher {
namespace {

using Clock = std::chrono::steady_clock;

// For a file: the limit for a file system that hangs.
constexpr std::chrono::milliseconds kFileTimeout{30'000};

struct Source {
  int descriptor = -1;
  std::string name;  // for messages
  Clock::time_point deadline;
};

Error unusable(const Source& source, ErrorCode code, const std::string& what) {
  return {code, "no usable start message " + source.name + ": " + what +
                    ". The agent is started by `elastictrain run`, not by hand"};
}

Status await_input(const Source& source) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(source.deadline - Clock::now()).count();
  pollfd input{source.descriptor, POLLIN, 0};
  const int ready = left > 0 ? ::poll(&input, 1, static_cast<int>(left)) : 0;
  if (ready > 0 || (ready < 0 && errno == EINTR)) return {};
  if (ready == 0) return unusable(source, ErrorCode::kTimeout, "no data arrived in time");
  return unusable(source, ErrorCode::kIo, std::strerror(errno));
}

// Reads not much further than the frame.
Result<std::string> read_frame(const Source& source, std::uint32_t index) {
  protocol::FrameReader reader(limits::kMaxBootstrapBytes);
  char block[4096];
  for (;;) {
    while (auto body = reader.next()) {
      if (index-- == 0) return std::move(*body);
    }
    const Status ready = await_input(source);
    if (!ready) return ready.error();
    const ssize_t count = ::read(source.descriptor, block, sizeof block);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return unusable(source, ErrorCode::kIo, std::strerror(errno));
    if (count == 0) return unusable(source, ErrorCode::kInvalid, "it ended early");
    const Status fed = reader.feed({block, static_cast<std::size_t>(count)});
    if (!fed) return unusable(source, ErrorCode::kInvalid, fed.error().message);
  }
}

Result<protocol::AgentBootstrap> read_message(const Source& source, std::uint32_t index) {
  auto body = read_frame(source, index);
  if (!body) return body.error();
  auto message = protocol::decode_body<protocol::Bootstrap>(*body);
  if (!message) return unusable(source, ErrorCode::kInvalid, message.error().message);
  auto bootstrap = std::get<protocol::AgentBootstrap>(std::move(*message));
  if (bootstrap.protocol_version != limits::kProtocolVersion) {
    return unusable(source, ErrorCode::kRefused,
                    "the supervisor speaks protocol " + std::to_string(bootstrap.protocol_version) +
                        ", this agent speaks " + std::to_string(limits::kProtocolVersion));
  }
  return bootstrap;
}

bool is_private(int file) {
  struct stat info {};
  return ::fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 077) == 0;
}

}  // namespace

Result<protocol::AgentBootstrap> read_bootstrap(int descriptor, std::chrono::milliseconds timeout) {
  return read_message({descriptor, "on standard input", Clock::now() + timeout}, 0);
}

Result<protocol::AgentBootstrap> read_pool_bootstrap(const std::string& path, std::uint32_t rank) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  const Source source{file, "for rank " + std::to_string(rank) + " in " + path, Clock::now() + kFileTimeout};
  if (file < 0) {
    return Error{ErrorCode::kUnavailable, path + ": " + std::strerror(errno) +
                                              "; all hosts of an MPI pool must share the state directory of the "
                                              "run: set ELASTICTRAIN_STATE_DIR to a directory on a shared file system"};
  }
  auto bootstrap = is_private(file) ? read_message(source, rank)
                                    : unusable(source, ErrorCode::kRefused, "other users can access the file");
  ::close(file);
  return bootstrap;
}

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

#include "launcher/agent/bootstrap_reader.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/frame_reader.h"
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

}  // namespace elastictrain::launcher

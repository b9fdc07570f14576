#include "launcher/agent/bootstrap_reader.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/frame_reader.h"

namespace elastictrain::launcher {
namespace {

using Clock = std::chrono::steady_clock;

Error unusable(ErrorCode code, const std::string& what) {
  return {code, "no usable start message on standard input: " + what +
                    ". The agent is started by `elastictrain run`, not by hand"};
}

Status await_input(int descriptor, Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd input{descriptor, POLLIN, 0};
  const int ready = left > 0 ? ::poll(&input, 1, static_cast<int>(left)) : 0;
  if (ready > 0 || (ready < 0 && errno == EINTR)) return {};
  if (ready == 0) return unusable(ErrorCode::kTimeout, "nothing came in time");
  return unusable(ErrorCode::kIo, std::strerror(errno));
}

// Reads no further than the first frame needs.
Result<std::string> read_frame(int descriptor, Clock::time_point deadline) {
  protocol::FrameReader reader(limits::kMaxBootstrapBytes);
  char block[4096];
  for (;;) {
    if (auto body = reader.next()) return std::move(*body);
    const Status ready = await_input(descriptor, deadline);
    if (!ready) return ready.error();
    const ssize_t count = ::read(descriptor, block, sizeof block);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return unusable(ErrorCode::kIo, std::strerror(errno));
    if (count == 0) return unusable(ErrorCode::kInvalid, "it ended early");
    const Status fed = reader.feed({block, static_cast<std::size_t>(count)});
    if (!fed) return unusable(ErrorCode::kInvalid, fed.error().message);
  }
}

}  // namespace

Result<protocol::AgentBootstrap> read_bootstrap(int descriptor, std::chrono::milliseconds timeout) {
  auto body = read_frame(descriptor, Clock::now() + timeout);
  if (!body) return body.error();
  auto message = protocol::decode_body<protocol::Bootstrap>(*body);
  if (!message) return unusable(ErrorCode::kInvalid, message.error().message);
  auto bootstrap = std::get<protocol::AgentBootstrap>(std::move(*message));
  if (bootstrap.protocol_version != limits::kProtocolVersion) {
    return unusable(ErrorCode::kRefused, "the supervisor speaks protocol " +
                                             std::to_string(bootstrap.protocol_version) + ", this agent speaks " +
                                             std::to_string(limits::kProtocolVersion));
  }
  return bootstrap;
}

}  // namespace elastictrain::launcher

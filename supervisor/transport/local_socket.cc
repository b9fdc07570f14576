#include "supervisor/transport/local_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace elastictrain::transport {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxAnswerBytes = 256u << 20;  // status of 100,000 workers is about 40 MB

Status wait_for(int socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd waiting{socket, events, 0};
    const int ready = left <= 0 ? 0 : ::poll(&waiting, 1, static_cast<int>(std::min<long>(left, 60'000)));
    if (ready > 0) return {};
    if (ready == 0 && Clock::now() >= deadline) return Error{ErrorCode::kTimeout, "it may be busy or stopped"};
    if (ready < 0 && errno != EINTR) return Error{ErrorCode::kIo, std::strerror(errno)};
  }
}

Status send_line(int socket, const std::string& line, Clock::time_point deadline) {
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t count = ::send(socket, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN || errno == EINTR) {
      if (Status waited = wait_for(socket, POLLOUT, deadline); !waited.ok()) return waited;
    } else {
      return Error{ErrorCode::kPeerLost, std::strerror(errno)};
    }
  }
  return {};
}

Result<std::string> receive_line(int socket, Clock::time_point deadline) {
  std::string answer;
  std::string chunk(64 * 1024, '\0');
  while (answer.size() < kMaxAnswerBytes) {
    const ssize_t count = ::recv(socket, chunk.data(), chunk.size(), 0);
    if (count == 0) return Error{ErrorCode::kPeerLost, "it ended before it answered"};
    if (count > 0) {
      answer.append(chunk, 0, static_cast<std::size_t>(count));
      if (answer.back() != '\n') continue;
      answer.pop_back();
      return answer;
    }
    if (errno != EAGAIN && errno != EINTR) return Error{ErrorCode::kPeerLost, std::strerror(errno)};
    if (Status waited = wait_for(socket, POLLIN, deadline); !waited.ok()) return waited.error();
  }
  return Error{ErrorCode::kInvalid, "the answer is too long"};
}

}  // namespace

OwnedDescriptor::~OwnedDescriptor() {
  if (value_ >= 0) ::close(value_);
}

OwnedDescriptor::OwnedDescriptor(OwnedDescriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}

OwnedDescriptor& OwnedDescriptor::operator=(OwnedDescriptor&& other) noexcept {
  std::swap(value_, other.value_);
  return *this;
}

Result<LocalAddress> LocalAddress::of(const std::string& path) {
  if (path.size() < sizeof(sockaddr_un::sun_path)) return LocalAddress(OwnedDescriptor(), path);
  const std::size_t slash = path.rfind('/');
  const std::string directory = path.substr(0, slash);
  OwnedDescriptor opened(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (opened.value() < 0) {
    const bool is_absent = errno == ENOENT || errno == ENOTDIR;
    return Error{is_absent ? ErrorCode::kUnavailable : ErrorCode::kIo,
                 "cannot open " + directory + ": " + std::strerror(errno)};
  }
  const std::string usable = "/proc/self/fd/" + std::to_string(opened.value()) + path.substr(slash);
  if (usable.size() >= sizeof(sockaddr_un::sun_path)) {
    return Error{ErrorCode::kInvalid, path + ": the name is too long for a socket"};
  }
  if (::access("/proc/self/fd", X_OK) != 0) {
    return Error{ErrorCode::kIo, path +
                                     " is too long for a socket and /proc is not mounted; set "
                                     "ELASTICTRAIN_STATE_DIR to a shorter path"};
  }
  return LocalAddress(std::move(opened), usable);
}

LocalAddress::LocalAddress(OwnedDescriptor directory, const std::string& usable_path)
    : directory_(std::move(directory)) {
  address_.sun_family = AF_UNIX;
  std::memcpy(address_.sun_path, usable_path.c_str(), usable_path.size() + 1);
}

std::optional<Peer> peer_of(int socket) {
  ucred found{};
  socklen_t length = sizeof found;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &found, &length) != 0) return std::nullopt;
  return Peer{found.uid, found.pid};
}

bool is_own(const Peer& peer) {
  return peer.uid == ::geteuid() || peer.uid == 0;
}

Result<OwnedDescriptor> connect_local(const std::string& path) {
  const auto address = LocalAddress::of(path);
  if (!address.ok()) return address.error();
  OwnedDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.value() >= 0 && ::connect(socket.value(), address->generic(), address->length()) == 0) return socket;
  const bool is_absent = errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR;
  if (is_absent) return Error{ErrorCode::kUnavailable, "nobody listens"};
  if (errno == EAGAIN) return Error{ErrorCode::kTimeout, "it may be busy or stopped"};
  return Error{ErrorCode::kIo, std::strerror(errno)};
}

bool has_listener(const std::string& path) {
  const auto socket = connect_local(path);
  return socket.ok() || socket.error().code == ErrorCode::kTimeout;
}

Result<std::string> exchange_lines(int socket, const std::string& line, Clock::time_point deadline) {
  const Status sent = send_line(socket, line + "\n", deadline);
  if (!sent.ok() && sent.error().code != ErrorCode::kPeerLost) return sent.error();
  return receive_line(socket, deadline);  // also of a peer that has closed: its last words may have arrived
}

}  // namespace elastictrain::transport

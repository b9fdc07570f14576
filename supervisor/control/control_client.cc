#include "supervisor/control/control_client.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "supervisor/control/control_protocol.h"

namespace elastictrain::control {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxAnswerBytes = 256u << 20;  // status of 100,000 workers is about 40 MB

struct Descriptor {
  explicit Descriptor(int opened) : value(opened) {}
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
  Descriptor(Descriptor&& other) noexcept : value(std::exchange(other.value, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int value;
};

std::string run_name_of(const std::string& run_directory) {
  return run_directory.substr(run_directory.rfind('/') + 1);
}

Result<Descriptor> connect_to(const std::string& run_directory) {
  auto path = SocketPath::in(run_directory);
  if (!path.ok()) return path.error();
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.value >= 0 && ::connect(socket.value, path->address(), path->length()) == 0) return socket;
  const bool absent = errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR;
  if (absent) {
    return Error{ErrorCode::kUnavailable, "no run named '" + run_name_of(run_directory) +
                                              "' is running; `elastictrain status` lists the running ones"};
  }
  return Error{errno == EAGAIN ? ErrorCode::kTimeout : ErrorCode::kIo,
               "cannot reach the run '" + run_name_of(run_directory) +
                   "': " + (errno == EAGAIN ? "it is too busy" : std::strerror(errno))};
}

Status wait_for(int socket, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd waiting{socket, events, 0};
    const int ready = left <= 0 ? 0 : ::poll(&waiting, 1, static_cast<int>(std::min<long>(left, 60'000)));
    if (ready > 0) return {};
    if (ready == 0 && Clock::now() >= deadline) {
      return Error{ErrorCode::kTimeout, "the run did not answer in time; it may be busy or stopped"};
    }
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
      return Error{ErrorCode::kPeerLost, "the run closed the connection"};
    }
  }
  return {};
}

Result<std::string> receive_line(int socket, Clock::time_point deadline) {
  std::string answer;
  char chunk[64 * 1024];
  while (answer.size() < kMaxAnswerBytes) {
    const ssize_t count = ::recv(socket, chunk, sizeof chunk, 0);
    if (count == 0) return Error{ErrorCode::kPeerLost, "the run ended before it answered"};
    if (count > 0) {
      answer.append(chunk, static_cast<std::size_t>(count));
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

Result<std::string> ask(const std::string& run_directory, const std::string& request, Millis timeout) {
  const auto deadline = Clock::now() + timeout;
  auto socket = connect_to(run_directory);
  if (!socket.ok()) return socket.error();
  if (Status sent = send_line(socket->value, request + "\n", deadline); !sent.ok()) return sent.error();
  return receive_line(socket->value, deadline);
}

bool is_live(const std::string& run_directory) {
  auto socket = connect_to(run_directory);
  // A listener whose queue is full is running, too.
  return socket.ok() || socket.error().code == ErrorCode::kTimeout;
}

std::vector<std::string> list_runs(const std::string& state_directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(state_directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_live(entry->path().string())) names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace elastictrain::control

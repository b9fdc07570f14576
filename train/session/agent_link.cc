#include "train/session/agent_link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "supervisor/protocol/codec.h"
#include "supervisor/protocol/limits.h"
#include "train/comm/peer_process.h"
#include "train/session/process_signals.h"

namespace elastictrain::session {
namespace {

constexpr std::chrono::milliseconds kRetry{200};
constexpr std::size_t kMaxOutboxBytes = 64U << 20;
constexpr std::size_t kMaxHeartbeatBacklogBytes = 1U << 20;

Result<comm::Socket> connect_unix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Error{ErrorCode::kInvalid, "the agent's socket path is too long: " + path};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  comm::Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return comm::io_error("socket", errno);
  if (::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return comm::io_error("cannot reach the agent at " + path + ": connect", errno);
  }
  return socket;
}

}  // namespace

Result<std::unique_ptr<AgentLink>> AgentLink::connect(LinkOptions options, LinkHandlers handlers) {
  auto socket = connect_unix(options.socket_path);
  if (!socket) return socket.error();
  comm::Socket wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return comm::io_error("eventfd", errno);
  std::unique_ptr<AgentLink> link(new AgentLink(std::move(options), std::move(handlers)));
  link->wake_ = std::move(wake);
  link->agent_ = comm::peer_pid(socket->fd());
  link->use(std::move(*socket));
  return link;
}

void AgentLink::start() {
  thread_ = background_thread("et-control", [this] { run(); });
}

AgentLink::AgentLink(LinkOptions options, LinkHandlers handlers)
    : options_(std::move(options)), handlers_(std::move(handlers)), reader_(limits::kMaxWorkerFrameBytes) {}

AgentLink::~AgentLink() {
  close(std::chrono::milliseconds(0));
}

void AgentLink::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.fd(), &one, sizeof one);
}

void AgentLink::send(const protocol::WorkerToAgent& message) {
  std::string frame = protocol::encode_frame(message);
  {
    const std::lock_guard lock(mutex_);
    if (outbox_bytes_ + frame.size() > kMaxOutboxBytes) return;
    outbox_bytes_ += frame.size();
    outbox_.push_back(std::move(frame));
  }
  wake();
}

void AgentLink::send_in_turn(const std::function<std::vector<protocol::WorkerToAgent>()>& make) {
  const std::lock_guard beat(heartbeat_mutex_);
  for (const auto& message : make()) send(message);
}

void AgentLink::fall_silent(const protocol::WorkerToAgent& last) {
  const std::lock_guard lock(heartbeat_mutex_);
  silent_ = true;
  send(last);
}

void AgentLink::introduce(const protocol::WorkerHello& hello) {
  const std::lock_guard beat(heartbeat_mutex_);
  {
    const std::lock_guard lock(mutex_);
    options_.hello = hello;
  }
  send(hello);
  silent_ = false;
}

void AgentLink::close(std::chrono::milliseconds flush_time) {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    close_deadline_ = Clock::now() + flush_time;
  }
  if (!thread_.joinable()) return;
  wake();
  thread_.join();
}

void AgentLink::run() {
  while (!finished_closing()) {
    const auto now = Clock::now();
    tend_connection(now);
    heartbeat_if_due(now);
    write_some();
    if (finished_closing()) return;
    wait_for_work();
    read_some();
  }
}

bool AgentLink::finished_closing() {
  const std::lock_guard lock(mutex_);
  return closing_ && (outbox_.empty() || !socket_.valid() || Clock::now() >= close_deadline_);
}

void AgentLink::use(comm::Socket socket) {
  socket_ = std::move(socket);
  reader_ = protocol::FrameReader(limits::kMaxWorkerFrameBytes);
  front_sent_ = 0;
  const std::lock_guard lock(mutex_);
  std::string hello = protocol::encode_frame(protocol::WorkerToAgent(options_.hello));
  outbox_bytes_ += hello.size();
  outbox_.push_front(std::move(hello));
}

void AgentLink::disconnect() {
  socket_.reset();
  lost_at_ = Clock::now();
  next_try_ = lost_at_ + kRetry;
}

void AgentLink::tend_connection(Clock::time_point now) {
  if (socket_.valid()) return;
  if (now >= next_try_) {
    next_try_ = now + kRetry;
    if (auto socket = connect_unix(options_.socket_path)) return use(std::move(*socket));
  }
  if (!orphaned_ && now - lost_at_ >= options_.orphan_grace) {
    orphaned_ = true;
    handlers_.on_orphaned();
  }
}

void AgentLink::heartbeat_if_due(Clock::time_point now) {
  if (now < next_heartbeat_ || !socket_.valid()) return;
  next_heartbeat_ = now + options_.heartbeat;
  {
    const std::lock_guard lock(mutex_);
    if (outbox_bytes_ > kMaxHeartbeatBacklogBytes) return;
  }
  const std::lock_guard beat(heartbeat_mutex_);
  if (silent_) return;
  for (const auto& message : handlers_.on_heartbeat()) send(message);
}

void AgentLink::write_some() {
  while (socket_.valid()) {
    std::string_view rest;
    {
      const std::lock_guard lock(mutex_);
      if (outbox_.empty()) return;
      rest = std::string_view(outbox_.front()).substr(front_sent_);  // senders only append, so the view stays valid
    }
    const auto sent = ::send(socket_.fd(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) return disconnect();
    front_sent_ += static_cast<std::size_t>(sent);
    if (static_cast<std::size_t>(sent) < rest.size()) continue;
    const std::lock_guard lock(mutex_);
    outbox_bytes_ -= outbox_.front().size();
    outbox_.pop_front();
    front_sent_ = 0;
  }
}

void AgentLink::wait_for_work() {
  pollfd waits[2] = {{wake_.fd(), POLLIN, 0}, {socket_.fd(), POLLIN, 0}};
  const auto until = socket_.valid() ? next_heartbeat_ : next_try_;
  auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  {
    const std::lock_guard lock(mutex_);
    if (!outbox_.empty()) waits[1].events |= POLLOUT;
    if (closing_) left = std::min(left, std::chrono::milliseconds(20));
  }
  ::poll(waits, socket_.valid() ? 2 : 1, static_cast<int>(std::clamp<long long>(left.count(), 0, 60'000)));
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(wake_.fd(), &count, sizeof count);
}

void AgentLink::read_some() {
  char bytes[65536];
  while (socket_.valid()) {
    const auto got = ::recv(socket_.fd(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0 || !reader_.feed({bytes, static_cast<std::size_t>(got)})) return disconnect();
    while (auto body = reader_.next()) {
      auto message = protocol::decode_body<protocol::WorkerDown>(*body);
      if (!message) return disconnect();
      handlers_.on_message(std::move(*message));
    }
  }
}

}  // namespace elastictrain::session

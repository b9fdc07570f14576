#include "train/comm/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace elastictrain::comm {
namespace {

// A child may only use what is safe in a signal handler, so the set is a plain array.
constexpr int kBitsPerWord = 64;
std::array<std::atomic<std::uint64_t>, kMaxGuarded / kBitsPerWord> guarded{};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

bool can_be_guarded(int fd) {
  return fd >= 0 && fd < kMaxGuarded;
}

std::atomic<std::uint64_t>& word_of(int fd) {
  return guarded[static_cast<std::size_t>(fd) / kBitsPerWord];
}

std::uint64_t bit_of(int fd) {
  return std::uint64_t{1} << (static_cast<unsigned>(fd) % kBitsPerWord);
}

void begin_child() {
  for (std::size_t i = 0; i < guarded.size(); ++i) {
    for (auto word = guarded[i].exchange(0); word != 0; word &= word - 1) {
      ::close(static_cast<int>(i) * kBitsPerWord + std::countr_zero(word));
    }
  }
}

const int registered = ::pthread_atfork(nullptr, nullptr, begin_child);

}  // namespace

void keep_from_children(int fd) {
  if (registered == 0 && can_be_guarded(fd)) word_of(fd).fetch_or(bit_of(fd), std::memory_order_relaxed);
}

void let_children_have(int fd) {
  if (can_be_guarded(fd)) word_of(fd).fetch_and(~bit_of(fd), std::memory_order_relaxed);
}

CancelToken::CancelToken() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  keep_from_children(fd_);
}

CancelToken::~CancelToken() {
  let_children_have(fd_);
  if (fd_ >= 0) ::close(fd_);
}

void CancelToken::cancel() noexcept {
  cancelled_.store(true, std::memory_order_release);
  const std::uint64_t one = 1;
  if (fd_ >= 0) [[maybe_unused]]
    const auto written = ::write(fd_, &one, sizeof one);
}

namespace {

std::string numeric(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "?";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
  return std::string(host) + " port " + port;
}

}  // namespace

Result<SocketAddress> SocketAddress::tcp(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0 || found == nullptr) {
    return Error{ErrorCode::kInvalid, "\"" + address + "\" is not a numeric IPv4 or IPv6 address"};
  }
  SocketAddress result;
  std::memcpy(&result.storage_, found->ai_addr, found->ai_addrlen);
  result.size_ = found->ai_addrlen;
  ::freeaddrinfo(found);
  return result;
}

Result<SocketAddress> SocketAddress::abstract_unix(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof address.sun_path) {
    return Error{ErrorCode::kInvalid, "the name of an abstract Unix socket is empty or too long"};
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  SocketAddress result;
  result.size_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  std::memcpy(&result.storage_, &address, result.size_);
  return result;
}

std::uint16_t bound_port(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6&>(address).sin6_port);
  return 0;
}

std::string ends_of(int fd) {
  sockaddr_storage peer{};
  sockaddr_storage own{};
  socklen_t peer_size = sizeof peer;
  socklen_t own_size = sizeof own;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) return "closed by now";
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) return "closed by now";
  return numeric(peer, peer_size) + " to " + numeric(own, own_size);
}

namespace {

constexpr int kLoopbackBufferBytes = 2 << 20;

bool same_address(const sockaddr_storage& a, const sockaddr_storage& b) {
  if (a.ss_family != b.ss_family) return false;
  if (a.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(b).sin_addr.s_addr;
  }
  return a.ss_family == AF_INET6 && std::memcmp(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
                                                &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr, 16) == 0;
}

// Traffic between two addresses of one machine never leaves it if both ends use the same address.
bool peer_is_local(int fd) {
  sockaddr_storage peer{};
  sockaddr_storage own{};
  socklen_t peer_size = sizeof peer;
  socklen_t own_size = sizeof own;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) return false;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) return false;
  return same_address(peer, own);
}

int get_int(int fd, int level, int option) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, level, option, &value, &size) == 0 ? value : 0;
}

void set_int(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

void choose_congestion_control(int fd) {
  for (const char* name : {"reno", "cubic"}) {
    if (::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, std::strlen(name)) == 0) return;
  }
}

int poll_timeout_ms(Deadline deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  const auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<long long>(left_ms, 0, 60'000));
}

// Repeats `transfer` (one send or recv) until `size` bytes are transferred.
template <class Transfer>
Status move_all(int fd, std::size_t size, short events, const CancelToken& cancel, Deadline deadline,
                Transfer transfer) {
  std::size_t done = 0;
  while (done < size) {
    if (cancel.cancelled()) return Error{ErrorCode::kAborted, "the transfer was cancelled"};
    const ssize_t n = transfer(done);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
    } else if (n == 0) {
      return Error{ErrorCode::kPeerLost, "the peer closed the connection"};
    } else if (errno == EAGAIN) {
      if (auto ready = wait_ready(fd, events, cancel, deadline); !ready) return ready;
    } else if (errno != EINTR) {
      return io_error("transfer", errno);
    }
  }
  return {};
}

}  // namespace

Socket::Socket(int fd) : fd_(fd) {
  keep_from_children(fd);
}

// In this order: another thread may get the same number as soon as it is closed.
void Socket::reset() {
  if (fd_ < 0) return;
  let_children_have(fd_);
  ::close(std::exchange(fd_, -1));
}

Error io_error(const std::string& what, int error_number) {
  const bool lost = error_number == EPIPE || error_number == ECONNRESET;
  return Error{lost ? ErrorCode::kPeerLost : ErrorCode::kIo, what + ": " + std::strerror(error_number)};
}

void tune_tcp(int fd) {
  set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (!peer_is_local(fd)) return;
  set_int(fd, SOL_SOCKET, SO_SNDBUF, kLoopbackBufferBytes);
  set_int(fd, SOL_SOCKET, SO_RCVBUF, kLoopbackBufferBytes);
  choose_congestion_control(fd);
}

TcpOptions tcp_options(int fd) {
  TcpOptions options;
  char name[32] = {};
  socklen_t size = sizeof name - 1;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0) options.congestion_control = name;
  options.send_buffer_bytes = get_int(fd, SOL_SOCKET, SO_SNDBUF);
  options.receive_buffer_bytes = get_int(fd, SOL_SOCKET, SO_RCVBUF);
  options.loopback = peer_is_local(fd);
  return options;
}

Status wait_ready(int fd, short events, const CancelToken& cancel, Deadline deadline) {
  pollfd fds[2] = {{fd, events, 0}, {cancel.fd(), POLLIN, 0}};
  for (;;) {
    const int ready = ::poll(fds, 2, poll_timeout_ms(deadline));
    if (cancel.cancelled()) return Error{ErrorCode::kAborted, "the wait for a peer was cancelled"};
    if (ready > 0 && fds[0].revents != 0) return {};
    if (ready < 0 && errno != EINTR) return io_error("poll", errno);
    if (std::chrono::steady_clock::now() >= deadline) {
      return Error{ErrorCode::kTimeout, "the peer sent or read nothing until the deadline"};
    }
  }
}

Status send_all(const Socket& socket, std::span<const std::byte> data, const CancelToken& cancel, Deadline deadline) {
  return move_all(socket.fd(), data.size(), POLLOUT, cancel, deadline, [&](std::size_t done) {
    const ssize_t n = ::send(socket.fd(), data.data() + done, data.size() - done, MSG_NOSIGNAL);
    return n;
  });
}

Status receive_all(const Socket& socket, std::span<std::byte> data, const CancelToken& cancel, Deadline deadline) {
  return move_all(socket.fd(), data.size(), POLLIN, cancel, deadline, [&](std::size_t done) {
    const ssize_t n = ::recv(socket.fd(), data.data() + done, data.size() - done, 0);
    return n;
  });
}

}  // namespace elastictrain::comm

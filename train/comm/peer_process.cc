#include "train/comm/peer_process.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace elastictrain::comm {
namespace {

bool credentials(int fd, ucred& found) {
  socklen_t size = sizeof found;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &found, &size) == 0;
}

}  // namespace

bool peer_has_own_uid(int unix_fd) {
  ucred found{};
  return credentials(unix_fd, found) && found.uid == ::geteuid();
}

pid_t peer_pid(int unix_fd) {
  ucred found{};
  return credentials(unix_fd, found) ? found.pid : 0;
}

Status PeerWatch::open() {
  epoll_ = Socket(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return io_error("epoll_create1", errno);
  return {};
}

Status PeerWatch::add(std::size_t peer, Socket connection, pid_t pid) {
  Entry entry{peer, std::move(connection), Socket()};
  if (entry.connection.valid()) {
    if (auto status = watch(entry.connection.fd(), peer, EPOLLRDHUP); !status) return status;
  }
  if (pid > 0 && pid != ::getpid()) {
    entry.pid = Socket(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!entry.pid.valid() && errno == ESRCH) {
      return Error{ErrorCode::kPeerLost, "local rank " + std::to_string(peer) + " ended while the group was built"};
    }
    if (entry.pid.valid()) {
      if (auto status = watch(entry.pid.fd(), peer, EPOLLIN); !status) return status;
    }
  }
  entries_.push_back(std::move(entry));
  return {};
}

Status PeerWatch::watch(int fd, std::size_t peer, unsigned events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = peer;
  if (::epoll_ctl(epoll_.fd(), EPOLL_CTL_ADD, fd, &event) != 0) return io_error("epoll_ctl", errno);
  return {};
}

std::optional<std::size_t> PeerWatch::gone() const {
  epoll_event event{};
  if (::epoll_wait(epoll_.fd(), &event, 1, 0) < 1) return std::nullopt;
  return static_cast<std::size_t>(event.data.u64);
}

void PeerWatch::forget(std::size_t peer) {
  for (const auto& entry : entries_) {
    if (entry.peer != peer) continue;
    if (entry.connection.valid()) ::epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, entry.connection.fd(), nullptr);
    if (entry.pid.valid()) ::epoll_ctl(epoll_.fd(), EPOLL_CTL_DEL, entry.pid.fd(), nullptr);
  }
}

void PeerWatch::hang_up() noexcept {
  for (const auto& entry : entries_) {
    if (entry.connection.valid()) ::shutdown(entry.connection.fd(), SHUT_RDWR);
  }
}

}  // namespace elastictrain::comm

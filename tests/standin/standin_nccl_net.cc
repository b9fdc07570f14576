#include "tests/standin/standin_nccl_net.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace standin {
namespace {

constexpr int kPoll_ms = 2;  // how soon a stop is seen

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool moves_first(const std::vector<Move>& moves, std::size_t index) {
  for (std::size_t i = 0; i < index; ++i) {
    if (moves[i].bytes > 0 && moves[i].socket == moves[index].socket && moves[i].outgoing == moves[index].outgoing) {
      return false;
    }
  }
  return true;
}

// Bytes moved, 0 when it would block, -1 when the peer is gone.
ssize_t advance(Move& move) {
  const ssize_t moved = move.outgoing ? ::send(move.socket, move.data, move.bytes, MSG_NOSIGNAL | MSG_DONTWAIT)
                                      : ::recv(move.socket, move.data, move.bytes, MSG_DONTWAIT);
  if (moved > 0) {
    move.data += moved;
    move.bytes -= static_cast<std::size_t>(moved);
    return moved;
  }
  return moved < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

}  // namespace

int listen_on_loopback(std::uint16_t& port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  auto address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener, 64) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    ::close(listener);
    return -1;
  }
  port = ntohs(address.sin_port);
  return listener;
}

int connect_to_loopback(std::uint16_t port) {
  const int connection = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto address = loopback(port);
  if (::connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(connection);
    return -1;
  }
  const int yes = 1;
  ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return connection;
}

bool accept_until(int listener, int& connection, const std::atomic<bool>& stop) {
  while (!stop) {
    pollfd waiting{listener, POLLIN, 0};
    if (::poll(&waiting, 1, kPoll_ms) < 1) continue;
    connection = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    const int yes = 1;
    if (connection >= 0) ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return connection >= 0;
  }
  return false;
}

MoveEnd move_all(std::vector<Move> moves, const std::atomic<bool>& stop) {
  for (;;) {
    bool progress = false;
    std::vector<pollfd> waiting;
    for (std::size_t i = 0; i < moves.size(); ++i) {
      if (moves[i].bytes == 0 || !moves_first(moves, i)) continue;
      const auto moved = advance(moves[i]);
      if (moved < 0) return MoveEnd::kLost;
      progress = progress || moved > 0;
      if (moves[i].bytes > 0) {
        waiting.push_back({moves[i].socket, static_cast<short>(moves[i].outgoing ? POLLOUT : POLLIN), 0});
      }
    }
    if (stop) return MoveEnd::kStopped;
    if (waiting.empty() && !progress) return MoveEnd::kDone;
    if (!progress) ::poll(waiting.data(), waiting.size(), kPoll_ms);
  }
}

}  // namespace standin

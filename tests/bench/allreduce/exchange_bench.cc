// What an all-reduce of two ranks over TCP cannot be faster than: each sends and receives as many bytes over one
// connection, without a sum, in the common timing loop. The socket options are ours.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "fork_ranks.h"
#include "options.h"
#include "supervisor/protocol/result.h"
#include "train/comm/socket.h"

namespace elastictrain::bench {
namespace {

constexpr std::size_t kMoveBytes = 256 << 10;

std::array<comm::Socket, 2> connected_pair() {
  comm::Socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  comm::Socket near(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool connected = ::bind(listener.fd(), generic, size) == 0 && ::listen(listener.fd(), 1) == 0 &&
                         ::getsockname(listener.fd(), generic, &size) == 0 &&
                         ::connect(near.fd(), generic, size) == 0;
  if (!connected) panic("no connection over loopback");
  comm::Socket far(::accept(listener.fd(), nullptr, nullptr));
  comm::tune_tcp(near.fd());
  comm::tune_tcp(far.fd());
  return {std::move(near), std::move(far)};
}

std::size_t moved(ssize_t n) {
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) panic("the connection is gone");
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}

void exchange(int fd, const std::byte* data, std::size_t size, std::vector<std::byte>& room) {
  std::size_t sent = 0;
  std::size_t received = 0;
  while (sent < size || received < size) {
    std::size_t progress = 0;
    if (sent < size) {
      progress = moved(::send(fd, data + sent, std::min(kMoveBytes, size - sent), MSG_NOSIGNAL | MSG_DONTWAIT));
      sent += progress;
    }
    if (received < size) {
      const std::size_t n = moved(::recv(fd, room.data(), std::min(room.size(), size - received), MSG_DONTWAIT));
      received += n;
      progress += n;
    }
    if (progress == 0) ::sched_yield();
  }
}

int run_rank(const Options& options, int fd, int rank) {
  std::vector<std::byte> room(kMoveBytes);
  std::vector<float> decision(16);
  run_loop(options.loop, rank, [&](float* data, std::size_t count) {
    const std::size_t bytes = count * sizeof(float);
    exchange(fd, reinterpret_cast<const std::byte*>(data), bytes, room);
    // The loop's own decision, which is a sum.
    if (rank != 0 && count == decision.size()) std::memcpy(data, room.data(), bytes);
  });
  return 0;
}

}  // namespace
}  // namespace elastictrain::bench

int main(int argc, char** argv) {
  using namespace elastictrain::bench;
  const auto options = parse_options(argc, argv);
  const auto sockets = connected_pair();
  return fork_ranks(2, [&](int rank) { return run_rank(options, sockets[static_cast<std::size_t>(rank)].fd(), rank); });
}

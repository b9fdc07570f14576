// What an all-reduce of two ranks over TCP cannot be faster than: each sends and receives as many bytes over one
// connection, without a sum, in the common timing loop. The socket options are ours.
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "fork_ranks.h"
#include "loopback.h"
#include "options.h"

namespace elastictrain::bench {
namespace {

constexpr std::size_t kMoveBytes = 256 << 10;

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
  run_loop(options.loop, rank, [&](float* data, std::size_t count) {
    const std::size_t bytes = count * sizeof(float);
    exchange(fd, reinterpret_cast<const std::byte*>(data), bytes, room);
    // The loop's own decision, which is a sum with zeros.
    if (rank != 0 && count == kDecisionValues) std::memcpy(data, room.data(), bytes);
  });
  return 0;
}

}  // namespace
}  // namespace elastictrain::bench

int main(int argc, char** argv) {
  using namespace elastictrain::bench;
  const auto options = parse_options(argc, argv);
  const auto [near, far] = connect_over_loopback();
  const std::array ends{near.fd(), far.fd()};
  for (const int end : ends) elastictrain::comm::tune_tcp(end);
  return fork_ranks(2, [&](int rank) { return run_rank(options, ends[static_cast<std::size_t>(rank)], rank); });
}

#include "train/comm/link.h"

#include <sched.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace elastictrain::comm {
namespace {

// Even with a core for every rank, another program may occupy the core that the peer needs.
constexpr int kTriesBeforeYield = 10;
// How often a sleeping thread checks the deadline and the shared memory of its host.
constexpr int kSleepMs = 5;

}  // namespace

Result<std::size_t> Link::try_send(std::span<const std::byte> data) {
  const ssize_t n = ::send(socket_.fd(), data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n >= 0) {
    sent_bytes_ += static_cast<std::size_t>(n);
    return static_cast<std::size_t>(n);
  }
  if (errno == EAGAIN || errno == EINTR) return std::size_t{0};
  return lost(errno);
}

Result<std::size_t> Link::try_receive(std::span<std::byte> data) {
  const ssize_t n = ::recv(socket_.fd(), data.data(), data.size(), MSG_DONTWAIT);
  if (n > 0) {
    received_bytes_ += static_cast<std::size_t>(n);
    return static_cast<std::size_t>(n);
  }
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return std::size_t{0};
  return lost(n == 0 ? 0 : errno);
}

Error Link::lost(int error_number) const {
  const std::string why = error_number == 0 ? "it closed the connection" : std::strerror(error_number);
  return Error{ErrorCode::kPeerLost, "lost rank " + std::to_string(peer_) + ": " + why};
}

std::optional<LinkHeader> Link::peek_header() const {
  LinkHeader header;
  const ssize_t n = ::recv(socket_.fd(), &header, sizeof header, MSG_PEEK | MSG_DONTWAIT);
  if (n != static_cast<ssize_t>(sizeof header)) return std::nullopt;
  return header;
}

void Link::shut_down() noexcept {
  ::shutdown(socket_.fd(), SHUT_RDWR);
}

Status check_link_header(const LinkHeader& mine, const LinkHeader& theirs, std::uint32_t peer) {
  if (mine == theirs) return {};
  return Error{ErrorCode::kInvalid, "ranks disagree about a collective operation: here number " +
                                        std::to_string(mine.sequence) + " with " + std::to_string(mine.bytes) +
                                        " bytes, at rank " + std::to_string(peer) + " number " +
                                        std::to_string(theirs.sequence) + " with " + std::to_string(theirs.bytes) +
                                        " bytes. Call the same operations with the same sizes on all ranks."};
}

Status LinkWait::pause(std::span<const pollfd> interests) {
  if (control_.aborted()) return control_.check();
  ++idle_;
  if (sleeps()) return sleep(interests);
  if (control_.crowded() || idle_ > kTriesBeforeYield) ::sched_yield();
  return {};
}

Status LinkWait::sleep(std::span<const pollfd> interests) {
  fds_.assign(interests.begin(), interests.end());
  fds_.push_back({also_watch_, POLLIN, 0});
  ::poll(fds_.data(), fds_.size(), kSleepMs);
  if (on_watch_) {
    if (auto status = on_watch_(); !status) return status;
  }
  return control_.check();
}

}  // namespace elastictrain::comm

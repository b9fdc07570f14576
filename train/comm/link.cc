#include "train/comm/link.h"

#include <sched.h>

#include "train/comm/operation.h"

namespace elastictrain::comm {
namespace {

// Even with a core for every rank, another program may occupy the core that the peer needs.
constexpr int kTriesBeforeYield = 10;
// How often a sleeping thread checks the deadline and the shared memory of its host.
constexpr int kSleepMs = 5;

}  // namespace

Result<std::size_t> Link::try_send(std::span<const std::byte> data) {
  return counted(channel_.try_send(data), sent_bytes_);
}

Result<std::size_t> Link::try_receive(std::span<std::byte> data) {
  return counted(channel_.try_receive(data), received_bytes_);
}

Result<std::size_t> Link::try_receive_in_place(std::span<std::byte> room) {
  return counted(channel_.try_receive_in_place(room), received_bytes_);
}

Result<std::size_t> Link::counted(Result<std::size_t> moved, std::uint64_t& count) const {
  if (!moved) return Error{ErrorCode::kPeerLost, "lost rank " + std::to_string(peer_) + ": " + moved.error().message};
  count += *moved;
  return moved;
}

std::optional<LinkHeader> Link::peek_header() {
  LinkHeader header;
  const auto arrived = channel_.peek(std::as_writable_bytes(std::span(&header, 1)));
  if (!arrived || !*arrived) return std::nullopt;
  return header;
}

Status check_link_header(const LinkHeader& mine, const LinkHeader& theirs, std::uint32_t peer) {
  if (mine == theirs) return {};
  return Error{ErrorCode::kMismatch,
               "ranks disagree about a collective operation: here number " + std::to_string(mine.sequence) + " with " +
                   std::to_string(mine.bytes) + " bytes, at rank " + std::to_string(peer) + " number " +
                   std::to_string(theirs.sequence) + " with " + std::to_string(theirs.bytes) + " bytes." +
                   kinds_text(static_cast<char>(mine.kind), static_cast<char>(theirs.kind)) +
                   " Call the same operations with the same sizes on all ranks."};
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

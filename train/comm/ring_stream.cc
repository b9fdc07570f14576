#include "train/comm/ring_stream.h"

#include <algorithm>
#include <cstring>

namespace elastictrain::comm {
namespace {

// One send or receive moves at most this much, so that both directions stay busy and received bytes are still in the
// cache.
constexpr std::size_t kMaxRingMoveBytes = 256 << 10;

}  // namespace

RingStream::RingStream(BlockWork& work, std::size_t position, std::size_t size, std::size_t reduce_steps,
                       std::size_t steps, std::span<std::byte> scratch)
    : work_(work), position_(position), size_(size), reduce_steps_(reduce_steps), steps_(steps), scratch_(scratch) {}

Status RingStream::run(Link& next, Link& previous, const LinkHeader& header, LinkWait& wait) {
  header_ = header;
  skip_empty();
  while (!sending_done() || !receiving_done()) {
    auto sent = send_some(next);
    if (!sent) return sent.error();
    auto received = receive_some(previous);
    if (!received) return received.error();
    if (*sent + *received > 0) {
      wait.moved();
      continue;
    }
    const bool wants_to_send = header_sent_ < sizeof(LinkHeader) || sendable() > 0;
    const pollfd interests[2] = {{receiving_done() ? -1 : previous.fd(), POLLIN, 0},
                                 {wants_to_send ? next.fd() : -1, POLLOUT, 0}};
    if (auto status = wait.pause(interests); !status) return status;
  }
  return {};
}

void RingStream::skip_empty() {
  while (out_.step < steps_ && out_.offset == work_.block_size(sent_block(out_.step))) out_ = {out_.step + 1, 0};
  while (in_.step < steps_ && in_.offset == work_.block_size(received_block(in_.step))) in_ = {in_.step + 1, 0};
}

// Step s sends what step s-1 has received.
std::size_t RingStream::sendable() const {
  if (out_.step == steps_) return 0;
  const std::size_t size = work_.block_size(sent_block(out_.step));
  if (out_.step == 0 || in_.step >= out_.step) return size - out_.offset;
  return in_.step + 1 == out_.step ? in_.offset - out_.offset : 0;
}

Result<std::size_t> RingStream::send_some(Link& next) {
  if (header_sent_ < sizeof(LinkHeader)) return send_header(next);
  const std::size_t ready = std::min(sendable(), kMaxRingMoveBytes);
  if (ready == 0) return std::size_t{0};
  const std::size_t block = sent_block(out_.step);
  const auto run = work_.memory(block, out_.offset, ready);
  if (out_.step == 0) work_.prepare_own(block, out_.offset + run.size());
  auto sent = next.try_send(run);
  if (!sent) return sent;
  out_.offset += *sent;
  skip_empty();
  return sent;
}

Result<std::size_t> RingStream::receive_some(Link& previous) {
  if (header_received_ < sizeof(LinkHeader)) return receive_header(previous);
  if (in_.step == steps_) return std::size_t{0};
  const std::size_t block = received_block(in_.step);
  auto received = in_.step < reduce_steps_ ? receive_to_reduce(previous, block) : receive_in_place(previous, block);
  skip_empty();
  return received;
}

Result<std::size_t> RingStream::send_header(Link& next) {
  auto sent = next.try_send(std::as_bytes(std::span(&header_, 1)).subspan(header_sent_));
  if (sent) header_sent_ += *sent;
  return sent;
}

Result<std::size_t> RingStream::receive_header(Link& previous) {
  auto received = previous.try_receive(std::as_writable_bytes(std::span(&their_header_, 1)).subspan(header_received_));
  if (!received) return received;
  header_received_ += *received;
  if (header_received_ < sizeof(LinkHeader)) return received;
  if (auto status = check_link_header(header_, their_header_, previous.peer()); !status) return status.error();
  return received;
}

Result<std::size_t> RingStream::receive_to_reduce(Link& previous, std::size_t block) {
  const std::size_t left = work_.block_size(block) - in_.offset - scratch_fill_;
  auto received =
      previous.try_receive_in_place(scratch_.subspan(scratch_fill_, std::min(left, scratch_.size() - scratch_fill_)));
  if (!received || *received == 0) return received;
  const std::size_t fill = scratch_fill_ + *received;
  const std::size_t whole = fill / sizeof(float) * sizeof(float);
  work_.reduce(block, in_.offset, scratch_.first(whole));
  scratch_fill_ = fill - whole;
  std::memmove(scratch_.data(), scratch_.data() + whole, scratch_fill_);
  in_.offset += whole;
  if (in_.step + 1 == reduce_steps_) work_.finished(block, in_.offset);
  return received;
}

Result<std::size_t> RingStream::receive_in_place(Link& previous, std::size_t block) {
  auto received = previous.try_receive_in_place(work_.memory(block, in_.offset, kMaxRingMoveBytes));
  if (!received) return received;
  in_.offset += *received;
  work_.finished(block, in_.offset);
  return received;
}

}  // namespace elastictrain::comm

// Purpose: moves bytes around a ring, blocks in, blocks out, as one continuous stream. After its own first block a rank
// sends what it received (and reduced) before, so received bytes can be forwarded at once.
//
// In step s the rank at position p sends block p-s and receives block p-s-1. With `reduce_steps` = size-1 the first
// half of the stream sums (reduce-scatter) and the second half distributes the sums (all-gather).
// Thread: the communicator's. Memory: one scratch buffer, borrowed.
#pragma once

#include <cstddef>
#include <span>

#include "train/comm/block_work.h"
#include "train/comm/link.h"

namespace elastictrain::comm {

class RingStream {
 public:
  RingStream(BlockWork& work, std::size_t position, std::size_t size, std::size_t reduce_steps, std::size_t steps,
             std::span<std::byte> scratch);

  Status run(Link& next, Link& previous, const LinkHeader& header, LinkWait& wait);

 private:
  struct Cursor {
    std::size_t step = 0;
    std::size_t offset = 0;  // within the step's block
  };

  std::size_t sent_block(std::size_t step) const { return (position_ + size_ * 2 - step % size_) % size_; }
  std::size_t received_block(std::size_t step) const { return sent_block(step + 1); }
  void skip_empty();
  bool sending_done() const { return header_sent_ == sizeof(LinkHeader) && out_.step == steps_; }
  bool receiving_done() const { return header_received_ == sizeof(LinkHeader) && in_.step == steps_; }

  // Bytes moved; 0: nothing could be moved now.
  Result<std::size_t> send_some(Link& next);
  Result<std::size_t> receive_some(Link& previous);
  Result<std::size_t> send_header(Link& next);
  Result<std::size_t> receive_header(Link& previous);
  Result<std::size_t> receive_to_reduce(Link& previous, std::size_t block);
  Result<std::size_t> receive_in_place(Link& previous, std::size_t block);
  std::size_t sendable() const;

  BlockWork& work_;
  const std::size_t position_;
  const std::size_t size_;
  const std::size_t reduce_steps_;
  const std::size_t steps_;
  std::span<std::byte> scratch_;
  std::size_t scratch_fill_ = 0;  // bytes of an incomplete float at the front
  LinkHeader header_;
  LinkHeader their_header_;
  std::size_t header_sent_ = 0;
  std::size_t header_received_ = 0;
  Cursor out_;
  Cursor in_;
};

}  // namespace elastictrain::comm

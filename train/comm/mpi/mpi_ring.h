// Purpose: moves blocks around a ring of ranks in segments: a sum of all ranks' blocks followed by its distribution to
// all ranks, or only the distribution. A segment is forwarded as soon as it arrives, from the message it came in.
//
// Each element is summed along the ring in one order and then copied, so that all ranks hold the same bits.
// MPI_Allreduce does not guarantee that.
#pragma once

#include <cstdint>
#include <span>

#include "train/comm/mpi/mpi_channel.h"

namespace elastictrain::comm {

// The content that moves; block b belongs to rank b. Offsets are bytes within the block.
class RingBlocks {
 public:
  virtual ~RingBlocks() = default;
  virtual std::size_t bytes_of(std::uint32_t block) const = 0;
  virtual void load(std::uint32_t block, std::size_t offset, std::span<std::byte> out) = 0;
  virtual void add_to(std::uint32_t block, std::size_t offset, std::span<std::byte> sum) = 0;
  // Both, with one pass over the memory.
  virtual void add_and_store(std::uint32_t block, std::size_t offset, std::span<std::byte> sum) = 0;
  virtual void store(std::uint32_t block, std::size_t offset, std::span<const std::byte> result) = 0;
};

class MpiRing {
 public:
  // `segment`: bytes, the same at all ranks, at most MpiMessage::kPayloadBytes; whole floats.
  MpiRing(MpiChannel& channel, RingBlocks& blocks, std::uint32_t rank, std::uint32_t size, bool reduces,
          std::size_t segment);

  Status run();

 private:
  std::uint32_t block_to_send(std::uint32_t step) const;
  std::uint32_t block_to_receive(std::uint32_t step) const { return block_to_send(step + 1); }
  std::uint32_t segments(std::uint32_t block) const;
  std::size_t segment_bytes(std::uint32_t block, std::uint32_t segment) const;
  bool sums_at(std::uint32_t step) const { return step + 1 < size_; }

  Status send_own_segment(std::uint32_t segment);
  Status take(MpiMessagePtr message);

  MpiChannel& channel_;
  RingBlocks& blocks_;
  const std::uint32_t rank_;
  const std::uint32_t size_;
  const std::size_t segment_;
  const std::size_t window_;  // segments
  const std::uint32_t first_step_;
  const std::uint32_t last_step_;
};

}  // namespace elastictrain::comm

// Purpose: blocks around a ring of MPI's messages: their movement, and the sums or copies that they carry.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/comm/blocks.h"
#include "train/comm/mpi/mpi_channel.h"

// Moves blocks around a ring of ranks in segments: a sum of all ranks' blocks followed by its distribution to
// all ranks, or only the distribution. A segment is forwarded as soon as it arrives, from the message it came in.
//
// Each element is summed along the ring in one order and then copied, so that all ranks hold the same bits.
// MPI_Allreduce does not guarantee that.

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

// The content that moves around a ring of messages (mpi_ring.h): the parts of a sum, or blocks to copy.
//
// Ownership: borrows the caller's vector or blocks for one operation. Thread: the communicator's.

// The input is not modified while it is summed. It is kept where results replace it.
class ReduceBlocks final : public RingBlocks {
 public:
  ReduceBlocks(const ReduceVector& vector, std::uint32_t size) : vector_(vector), size_(size), stored_(size) {}

  std::size_t bytes_of(std::uint32_t block) const override { return (begin(block + 1) - begin(block)) * sizeof(float); }
  void load(std::uint32_t block, std::size_t offset, std::span<std::byte> out) override;
  void add_to(std::uint32_t block, std::size_t offset, std::span<std::byte> sum) override;
  void add_and_store(std::uint32_t block, std::size_t offset, std::span<std::byte> sum) override;
  void store(std::uint32_t block, std::size_t offset, std::span<const std::byte> result) override;

  // After a failure: keeps the input that no result has replaced. `segment`: as for the ring.
  void keep_the_rest(std::size_t segment) const;

 private:
  std::size_t begin(std::uint32_t block) const { return part_begin(vector_.size(), size_, block); }

  const ReduceVector& vector_;
  const std::uint32_t size_;
  std::vector<std::vector<std::size_t>> stored_;  // offsets of segments, of each block
};

class ShareBlocks final : public RingBlocks {
 public:
  explicit ShareBlocks(std::span<const Pieces> blocks) : blocks_(blocks) {}

  std::size_t bytes_of(std::uint32_t block) const override { return blocks_[block].size(); }
  void load(std::uint32_t block, std::size_t offset, std::span<std::byte> out) override;
  void add_to(std::uint32_t block, std::size_t offset, std::span<std::byte> sum) override;
  void add_and_store(std::uint32_t block, std::size_t offset, std::span<std::byte> sum) override;
  void store(std::uint32_t block, std::size_t offset, std::span<const std::byte> result) override;

 private:
  const std::span<const Pieces> blocks_;
};

}  // namespace elastictrain::comm

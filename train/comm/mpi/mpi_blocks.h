// Purpose: the content that moves around a ring of messages (mpi_ring.h): the parts of a sum, or blocks to copy.
//
// Ownership: borrows the caller's vector or blocks for one operation. Thread: the communicator's.
#pragma once

#include <vector>

#include "train/comm/mpi/mpi_ring.h"
#include "train/comm/pieces.h"

namespace elastictrain::comm {

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

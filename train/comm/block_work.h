// Purpose: processes the bytes of an operation's blocks while a stream (ring_stream.h, tree_stream.h) moves them: an
// all-reduce sums them, all other operations only store them.
//
// Ownership: borrows the caller's vectors and blocks for one operation. Thread: the communicator's. Units: bytes, and
// floats in a ReduceVector.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "train/comm/pieces.h"

namespace elastictrain::comm {

// How the bytes of the blocks are processed. Offsets are within a block.
class BlockWork {
 public:
  virtual ~BlockWork() = default;
  virtual std::size_t block_size(std::size_t block) const = 0;
  // Memory of a block from `offset` on, contiguous, at most `max` bytes.
  virtual std::span<std::byte> memory(std::size_t block, std::size_t offset, std::size_t max) = 0;
  // Called before bytes of this rank's own first block are sent: [0, end) must be ready.
  virtual void prepare_own(std::size_t block, std::size_t end) = 0;
  // Adds the received bytes to [offset, offset + incoming.size()) of the block. Sizes are multiples of a float. Bytes
  // of several peers may be added to one place, but those of a later peer only where the first peer's have been added.
  virtual void reduce(std::size_t block, std::size_t offset, std::span<const std::byte> incoming) = 0;
  // [0, end) of the block now holds final values.
  virtual void finished(std::size_t block, std::size_t end) = 0;
};

// Norms of the data, without the lane.
double data_square_sum(const ReduceVector& vector);

// An all-reduce: the blocks are equal parts of the vector.
class ReduceWork final : public BlockWork {
 public:
  // `stats`: receives the norms; may be null.
  ReduceWork(const ReduceVector& vector, std::size_t parts, ReduceStats* stats);

  std::size_t block_size(std::size_t block) const override { return count(block) * sizeof(float); }
  std::span<std::byte> memory(std::size_t block, std::size_t offset, std::size_t max) override;
  void prepare_own(std::size_t block, std::size_t end) override;
  void reduce(std::size_t block, std::size_t offset, std::span<const std::byte> incoming) override;
  void finished(std::size_t block, std::size_t end) override;

  // After an error: everything that was modified has been kept.
  void keep_rest() const;
  // Call it after the operation.
  void collect();

 private:
  // Sum of squares of a block in pieces of fixed size, so that the result does not depend on how the bytes arrived.
  struct BlockNorm {
    double sum = 0;
    std::size_t done = 0;
  };

  std::size_t begin(std::size_t block) const { return part_begin(vector_.size(), parts_, block); }
  std::size_t count(std::size_t block) const { return begin(block + 1) - begin(block); }
  void note_input(const ReduceVector::Run& run);

  const ReduceVector& vector_;
  const Pieces bytes_;
  const std::size_t parts_;
  ReduceStats* stats_;
  std::vector<BlockNorm> norms_;
  std::vector<std::size_t> touched_;  // floats of each block that no longer hold the input, from its beginning
};

// Blocks that are only copied.
class ShareWork final : public BlockWork {
 public:
  explicit ShareWork(std::span<const Pieces> blocks) : blocks_(blocks) {}
  std::size_t block_size(std::size_t block) const override { return blocks_[block].size(); }
  std::span<std::byte> memory(std::size_t block, std::size_t offset, std::size_t max) override {
    return blocks_[block].run(offset, max);
  }
  void prepare_own(std::size_t, std::size_t) override {}
  void reduce(std::size_t, std::size_t, std::span<const std::byte>) override {}
  void finished(std::size_t, std::size_t) override {}

 private:
  std::span<const Pieces> blocks_;
};

}  // namespace elastictrain::comm

// Purpose: memory of an operation: buffers that lie in several places, and the work on the bytes of its blocks while
// a stream moves them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "supervisor/protocol/check.h"
#include "train/comm/communicator.h"

// A buffer that is logically contiguous but lies in several places: gradient and control lane, or the blocks
// of one host's ranks. The memory is borrowed and must stay valid.

namespace elastictrain::comm {

class Pieces {
 public:
  void add(std::span<std::byte> piece) {
    if (piece.empty()) return;
    pieces_.push_back(piece);
    size_ += piece.size();
  }
  void add(const Pieces& other) {
    pieces_.insert(pieces_.end(), other.pieces_.begin(), other.pieces_.end());
    size_ += other.size_;
  }
  std::size_t size() const { return size_; }

  // The longest contiguous part that starts at `offset`, at most `max` long.
  std::span<std::byte> run(std::size_t offset, std::size_t max) const {
    for (const auto& piece : pieces_) {
      if (offset < piece.size()) return piece.subspan(offset, std::min(max, piece.size() - offset));
      offset -= piece.size();
    }
    return {};
  }

  // Copies between the bytes that start at `offset` and `bytes`, which must not extend beyond the end.
  void get(std::size_t offset, std::span<std::byte> bytes) const {
    ET_CHECK(bytes.size() <= size_ - std::min(offset, size_), "what is read of a block is in it");
    for_runs(offset, bytes.size(),
             [&](std::span<std::byte> run, std::size_t at) { std::memcpy(bytes.data() + at, run.data(), run.size()); });
  }
  void put(std::size_t offset, std::span<const std::byte> bytes) const {
    ET_CHECK(bytes.size() <= size_ - std::min(offset, size_), "what is written to a block is in it");
    for_runs(offset, bytes.size(),
             [&](std::span<std::byte> run, std::size_t at) { std::memcpy(run.data(), bytes.data() + at, run.size()); });
  }

 private:
  // Calls f(run, offset from begin).
  template <class F>
  void for_runs(std::size_t begin, std::size_t count, F f) const {
    for (std::size_t done = 0; done < count;) {
      const auto part = run(begin + done, count - done);
      f(part, done);
      done += part.size();
    }
  }

  std::vector<std::span<std::byte>> pieces_;
  std::size_t size_ = 0;
};

// The vector of an all-reduce: data first, then the lane. Only the data is scaled, and only its input is kept.
class ReduceVector {
 public:
  // `keep`: as long as the data, or empty.
  ReduceVector(std::span<float> data, std::span<float> lane, float scale, std::span<float> keep = {},
               Element element = Element::kFloat32)
      : data_(data), lane_(lane), keep_(keep), scale_(scale), element_(element) {
    ET_CHECK(keep_.empty() || keep_.size() == data_.size(), "the input is kept whole or not at all");
  }

  struct Run {
    float* values = nullptr;
    std::size_t count = 0;
    float scale = 1.0F;
    bool is_data = true;
    float* keep = nullptr;  // where this part of the input is kept; null: it is not kept

    // Call it before the first change of the values.
    void keep_input() const {
      if (keep != nullptr) std::memcpy(keep, values, count * sizeof(float));
    }
  };

  std::size_t size() const { return data_.size() + lane_.size(); }
  Element element() const { return element_; }

  Run run(std::size_t position, std::size_t max) const {
    if (position < data_.size()) {
      float* const keep = keep_.empty() ? nullptr : keep_.data() + position;
      return {data_.data() + position, std::min(max, data_.size() - position), scale_, true, keep};
    }
    position -= data_.size();
    return {lane_.data() + position, std::min(max, lane_.size() - position), 1.0F, false, nullptr};
  }

  // Calls f(run, offset from begin) for the contiguous parts of [begin, end).
  template <class F>
  void for_runs(std::size_t begin, std::size_t end, F f) const {
    for (std::size_t position = begin; position < end;) {
      const Run part = run(position, end - position);
      f(part, position - begin);
      position += part.count;
    }
  }

  // Keeps the part that has not been modified yet.
  void keep(std::size_t begin, std::size_t end) const {
    if (keep_.empty()) return;
    for_runs(begin, end, [](const Run& run, std::size_t) { run.keep_input(); });
  }
  void keep_all() const { keep(0, data_.size()); }

  // The view after a first reduction, which must not be scaled or kept again.
  ReduceVector reduced() const { return {data_, lane_, 1.0F, {}, element_}; }

  // The part [begin, end) as a vector of its own.
  ReduceVector slice(std::size_t begin, std::size_t end) const {
    ET_CHECK(begin <= end && end <= size(), "a slice is a part of its vector");
    const auto data_begin = std::min(begin, data_.size());
    const auto data_end = std::min(end, data_.size());
    const auto lane_begin = begin - data_begin;
    const auto lane_end = end - data_end;
    const auto keep = keep_.empty() ? keep_ : keep_.subspan(data_begin, data_end - data_begin);
    return {data_.subspan(data_begin, data_end - data_begin), lane_.subspan(lane_begin, lane_end - lane_begin), scale_,
            keep, element_};
  }

  Pieces bytes() const {
    Pieces pieces;
    pieces.add(std::as_writable_bytes(data_));
    pieces.add(std::as_writable_bytes(lane_));
    return pieces;
  }

 private:
  std::span<float> data_;
  std::span<float> lane_;
  std::span<float> keep_;
  float scale_;
  Element element_;
};

// Divides `total` elements into `parts` of nearly equal size, on cache-line boundaries: the begin of part `index`.
inline std::size_t part_begin(std::size_t total, std::size_t parts, std::size_t index) {
  constexpr std::size_t kAlign = 16;
  const std::size_t step = (total / parts + kAlign - 1) / kAlign * kAlign;
  return index >= parts ? total : std::min(total, step * index);
}

// Processes the bytes of an operation's blocks while a stream (block_streams.h) moves them: an
// all-reduce sums them, all other operations only store them.
//
// Ownership: borrows the caller's vectors and blocks for one operation. Thread: the communicator's. Units: bytes, and
// floats in a ReduceVector.

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

// Purpose: memory of the session that is reused from step to step: copies of a step's inputs, and values of a
// program's collectives, resident before their first use.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

// Memory that is there before it is used, so that its first use causes no page faults.
// Ownership: the object's. Thread: one at a time. Failure: the constructor throws std::bad_alloc.

namespace elastictrain::session {

class ResidentMemory {
 public:
  ResidentMemory() = default;
  explicit ResidentMemory(std::size_t floats);
  ResidentMemory(ResidentMemory&& other) noexcept;
  ResidentMemory& operator=(ResidentMemory&& other) noexcept;
  ~ResidentMemory();

  std::span<float> floats() const { return floats_; }

 private:
  std::span<float> floats_;
};

// Copies of a step's inputs, one for each bucket, from which its all-reduces can be repeated after a loss. The
// memory is kept from step to step.
//
// Ownership: the session. Thread: one at a time. Units: floats. Failure: a call throws std::bad_alloc if the system has
// no memory left.

class InputCopies {
 public:
  // Makes room for `count` floats of all buckets together, before they are known one by one.
  void reserve(std::size_t count);

  // Memory for the copy of bucket `index`, its place in the step. It is the same in each step, and resident. A bucket
  // that grows loses its contents.
  std::span<float> of_bucket(std::size_t index, std::size_t count);
  // The same, as `copy`, where it has another size. Otherwise it uses nothing of this object, on whichever thread.
  void make_room(std::span<float>& copy, std::size_t index, std::size_t count) {
    if (copy.size() != count) copy = of_bucket(index, count);
  }

 private:
  struct Slot {
    std::span<float> memory;
    ResidentMemory own;  // where nothing was reserved for it
  };

  std::span<float> memory_for(Slot& slot, std::size_t count);

  ResidentMemory reserved_;
  std::span<float> unused_;  // of what is reserved
  std::deque<Slot> slots_;
};

// Memory of the session for values of a program's collectives, which must stay where they are until the step's
// commit. It is reused from step to step.
// Ownership: the session. Thread: the training thread. Failure: take() throws std::bad_alloc.

class StepMemory {
 public:
  // Aligned for every type of values; what it holds is undefined.
  std::byte* take(std::size_t bytes);
  // What was taken may be given out again.
  void release() { taken_ = 0; }

 private:
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t bytes = 0;
  };

  std::vector<Block> blocks_;
  std::size_t taken_ = 0;  // blocks
};

}  // namespace elastictrain::session

// Purpose: copies of a step's inputs, one for each bucket, from which its all-reduces can be repeated after a loss. The
// memory is kept from step to step.
//
// Ownership: the session. Thread: one at a time. Units: floats. Failure: a call throws std::bad_alloc if the system has
// no memory left.
#pragma once

#include <cstddef>
#include <deque>
#include <span>

#include "train/session/resident_memory.h"

namespace elastictrain::session {

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

}  // namespace elastictrain::session

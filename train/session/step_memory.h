// Purpose: memory of the session for values of a program's collectives, which must stay where they are until the step's
// commit. It is reused from step to step.
// Ownership: the session. Thread: the training thread. Failure: take() throws std::bad_alloc.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace elastictrain::session {

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

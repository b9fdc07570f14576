// Purpose: memory that is there before it is used, so that its first use causes no page faults.
// Ownership: the object's. Thread: one at a time. Failure: the constructor throws std::bad_alloc.
#pragma once

#include <cstddef>
#include <span>

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

}  // namespace elastictrain::session

// Purpose: the memory of parameters and gradients. It comes from the kernel as zeros and in huge pages where there are
// any, so that a hundred megabytes are there in some ten milliseconds: a worker that starts takes its processor time
// from those that train on the same host.
//
// Ownership: of the memory; movable, keeps its address. Failure: std::bad_alloc.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace elastictrain::train {

class LargeBuffer {
 public:
  LargeBuffer() = default;
  explicit LargeBuffer(std::size_t count);  // all zero
  ~LargeBuffer();
  LargeBuffer(LargeBuffer&& other) noexcept : values_(std::exchange(other.values_, {})) {}
  LargeBuffer& operator=(LargeBuffer&& other) noexcept {
    std::swap(values_, other.values_);
    return *this;
  }

  std::span<float> values() { return values_; }

 private:
  std::span<float> values_;
};

}  // namespace elastictrain::train

#include "train/session/resident_memory.h"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace elastictrain::session {

ResidentMemory::ResidentMemory(std::size_t floats) {
  if (floats == 0) return;
  const std::size_t bytes = floats * sizeof(float);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // Only a matter of speed: a kernel before 5.14 does not know the advice and faults the pages in later.
  ::madvise(memory, bytes, MADV_POPULATE_WRITE);
  floats_ = {static_cast<float*>(memory), floats};
}

ResidentMemory::ResidentMemory(ResidentMemory&& other) noexcept : floats_(std::exchange(other.floats_, {})) {}

ResidentMemory& ResidentMemory::operator=(ResidentMemory&& other) noexcept {
  std::swap(floats_, other.floats_);
  return *this;
}

ResidentMemory::~ResidentMemory() {
  if (!floats_.empty()) ::munmap(floats_.data(), floats_.size_bytes());
}

}  // namespace elastictrain::session

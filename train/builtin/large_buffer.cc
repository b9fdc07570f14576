#include "train/builtin/large_buffer.h"

#include <sys/mman.h>

#include <new>

namespace elastictrain::train {

LargeBuffer::LargeBuffer(std::size_t count) {
  if (count == 0) return;
  const std::size_t bytes = count * sizeof(float);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // Only a matter of speed: a kernel without huge pages refuses.
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  values_ = {static_cast<float*>(memory), count};
}

LargeBuffer::~LargeBuffer() {
  if (!values_.empty()) ::munmap(values_.data(), values_.size_bytes());
}

}  // namespace elastictrain::train

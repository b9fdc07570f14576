// Purpose: the memory that an update changes, as the program registered it: one address space of bytes over all buffers
// (for slices of a state transfer), its layout hash and a content hash.
//
// Ownership: the program owns the buffers; this keeps their addresses. Thread: registration before start, then any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace elastictrain::state {

struct Buffer {
  std::string name;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// [offset, offset + length) of all buffers laid end to end.
struct Slice {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

class StateBuffers {
 public:
  // False when the name is taken.
  bool add(std::string_view name, void* data, std::size_t bytes);

  // The same layout over memory of its own (which `storage` becomes), to receive a state beside the program's.
  StateBuffers shadow(std::vector<std::byte>& storage) const;
  // Of the same layout.
  void copy_from(const StateBuffers& other) const;

  const std::vector<Buffer>& buffers() const { return buffers_; }
  std::uint64_t total_bytes() const { return total_bytes_; }
  std::uint64_t layout_hash() const;
  std::uint64_t content_hash() const;

  // Gives the buffers their memory now, where the program has not written to them yet: faults of page after page would
  // slow down the state that arrives while others wait for it.
  void populate() const;

  // The longest contiguous piece of memory that starts at `offset` and is not longer than `limit`.
  std::span<std::byte> piece(std::uint64_t offset, std::uint64_t limit) const;

 private:
  std::vector<Buffer> buffers_;
  std::uint64_t total_bytes_ = 0;
};

// Slice `index` of `count`: contiguous, together the whole, sizes differing by at most one cache line.
Slice slice_of(std::uint64_t total_bytes, std::uint32_t index, std::uint32_t count);

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed);

}  // namespace elastictrain::state

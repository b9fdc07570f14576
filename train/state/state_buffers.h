// Purpose: the memory that an update changes, as the program registered it: one address space of bytes over all buffers
// (for slices of a state transfer), its layout hash and a content hash. A buffer may lie where the CPU cannot reach it,
// in a GPU's memory: then its port copies.
//
// Ownership: the program owns the buffers; this keeps their addresses. Thread: registration before start, then any.
// Failure: only of a port, as its Status; host memory never fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::state {

// Copies between host memory and memory that only a device reaches. Thread: any, several at once. Both calls return
// when the copy is done; what the program has queued on its own streams is not waited for.
class MemoryPort {
 public:
  virtual ~MemoryPort() = default;
  virtual Status read(const std::byte* device, std::span<std::byte> into) = 0;
  virtual Status write(std::byte* device, std::span<const std::byte> from) = 0;
};

struct Buffer {
  std::string name;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  MemoryPort* port = nullptr;  // of memory that the CPU does not reach
};

// A contiguous part of one buffer.
struct Piece {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  MemoryPort* port = nullptr;

  Status read(std::span<std::byte> into) const;  // `bytes` of them
  Status write(std::span<const std::byte> from) const;
};

// Gives the bytes of pieces to those who need them in host memory: the piece itself where it is there, a copy elsewhere.
// Valid until the next call.
class HostView {
 public:
  Result<std::span<const std::byte>> of(const Piece& piece);
  // Where to put what becomes the piece's content with written().
  std::span<std::byte> to_fill(const Piece& piece);
  Status written(const Piece& piece, std::size_t bytes);

 private:
  std::vector<std::byte> copy_;
};

// [offset, offset + length) of all buffers laid end to end.
struct Slice {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

class StateBuffers {
 public:
  // False when the name is taken.
  bool add(std::string_view name, void* data, std::size_t bytes, MemoryPort* port = nullptr);

  // The same layout over host memory of its own (which `storage` becomes), to receive a state beside the program's.
  StateBuffers shadow(std::vector<std::byte>& storage) const;
  // Of the same layout, both in host memory.
  void copy_from(const StateBuffers& other) const;

  const std::vector<Buffer>& buffers() const { return buffers_; }
  std::uint64_t total_bytes() const { return total_bytes_; }
  std::uint64_t layout_hash() const;
  Result<std::uint64_t> content_hash() const;

  // Gives the buffers their memory now, where the program has not written to them yet: faults of page after page would
  // slow down the state that arrives while others wait for it.
  void populate() const;

  // The longest contiguous piece of memory that starts at `offset` and is not longer than `limit`.
  Piece piece(std::uint64_t offset, std::uint64_t limit) const;

 private:
  std::vector<Buffer> buffers_;
  std::uint64_t total_bytes_ = 0;
};

// Slice `index` of `count`: contiguous, together the whole, sizes differing by at most one cache line.
Slice slice_of(std::uint64_t total_bytes, std::uint32_t index, std::uint32_t count);

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed);

}  // namespace elastictrain::state

// Purpose: the memory that an update changes, as the program registered it: one address space of bytes over all buffers
// (for slices of a state transfer), its layout hash and a content hash. A buffer may be in GPU memory, which the CPU
// cannot access; its port then copies.
//
// Ownership: the program owns the buffers; this class keeps their addresses. Thread: registration before start, then
// any. Failure: only that of a port, as its Status; host memory never fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::state {

// Copies between host memory and memory that only a device can access. Thread: any, several at once. Both calls return
// when the copy is done. They do not wait for work that the program has queued on its own streams.
class MemoryPort {
 public:
  virtual ~MemoryPort() = default;
  virtual Status read(const std::byte* device, std::span<std::byte> into) = 0;
  virtual Status write(std::byte* device, std::span<const std::byte> from) = 0;
};

// What a buffer holds, by the names of the safetensors format.
struct TensorType {
  std::string dtype = "U8";
  std::vector<std::uint64_t> shape;
};

struct Buffer {
  std::string name;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  MemoryPort* port = nullptr;      // for memory that the CPU cannot access
  std::optional<TensorType> type;  // none: bytes
};

// A contiguous part of one buffer.
struct Piece {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  MemoryPort* port = nullptr;

  Status read(std::span<std::byte> into) const;  // all `bytes`
  Status write(std::span<const std::byte> from) const;
};

// Provides the bytes of pieces in host memory: the piece itself if it is there, otherwise a copy. Valid until the next
// call.
class HostView {
 public:
  Result<std::span<const std::byte>> of(const Piece& piece);
  // The memory for bytes that written() then copies to the piece.
  std::span<std::byte> to_fill(const Piece& piece);
  Status written(const Piece& piece, std::size_t bytes);

 private:
  std::vector<std::byte> copy_;
};

// [offset, offset + length) of all buffers, concatenated.
struct Slice {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

class StateBuffers {
 public:
  // False if the name is already used.
  bool add(std::string_view name, void* data, std::size_t bytes, MemoryPort* port = nullptr,
           std::optional<TensorType> type = std::nullopt);
  // The buffer's content is at another address now. Returns the one before; null if there is no such buffer, or the CPU
  // cannot access it.
  std::byte* move(std::string_view name, void* data);

  // The same layout over separate host memory (in `storage`), to receive a state next to the program's.
  StateBuffers shadow(std::vector<std::byte>& storage) const;
  // `other` has the same layout; both are in host memory.
  void copy_from(const StateBuffers& other) const;

  const std::vector<Buffer>& buffers() const { return buffers_; }
  std::uint64_t total_bytes() const { return total_bytes_; }
  std::uint64_t layout_hash() const;
  // For people: a line "weights F32[32,1,3,3]" or "weights, 1152 bytes" for each buffer, the first ones as far as they
  // fit.
  std::string describe(std::size_t max_bytes) const;
  Result<std::uint64_t> content_hash() const;

  // Allocates the pages of buffers that the program has not written yet: page faults would slow down the arriving state
  // while others wait for it.
  void populate() const;

  // Of the buffer that holds this byte.
  const std::string& name_at(std::uint64_t offset) const;
  // The longest contiguous piece of memory that starts at `offset` and is at most `limit` long.
  Piece piece(std::uint64_t offset, std::uint64_t limit) const;

 private:
  std::vector<Buffer> buffers_;
  std::vector<std::uint64_t> ends_;  // of each buffer, in the address space of all
  std::unordered_map<std::string, std::size_t> places_;
  std::uint64_t total_bytes_ = 0;
};

// Slice `index` of `count`. The slices are contiguous, cover the whole, and differ in size by at most one cache line.
Slice slice_of(std::uint64_t total_bytes, std::uint32_t index, std::uint32_t count);

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed);

}  // namespace elastictrain::state

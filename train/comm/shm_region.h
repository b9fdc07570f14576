// Purpose: the memory that the ranks of one host share: a sealed memfd with a fixed layout. It has no name, so it
// disappears with the last process that maps it, however that process ends.
//
// Layout: group header | per rank: control block, kBuffers chunk buffers | per ordered pair: a mailbox. Thread: several
// processes at once, by the protocol of ShmGroup. Failure: create() and attach() return the reason. The size is sealed,
// so no peer can remove pages.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "supervisor/protocol/result.h"
#include "train/comm/socket.h"

namespace elastictrain::comm {

inline constexpr std::size_t kLineBytes = 128;  // two cache lines: neighbours are prefetched in pairs

enum class SlotState : std::uint32_t { kLive = 0, kLeft = 1 };

struct alignas(kLineBytes) GroupHeader {
  std::atomic<std::uint32_t> broken;    // a rank failed or aborted: all ranks stop
  std::atomic<std::uint32_t> sleepers;  // ranks in futex(2); publishers check it before a wake-up
};

// Identifies what the chunk in a buffer belongs to; equal on all ranks unless the program mixes up its calls.
struct ChunkHeader {
  std::uint64_t operation = 0;  // kind and number
  std::uint64_t bytes = 0;      // of the whole operation
};

inline constexpr std::size_t kChunkBuffers = 3;

struct RankControl {
  // All that a peer must read about this rank's input is in one cache line.
  alignas(kLineBytes) std::atomic<std::uint32_t> entered;  // number of chunks with this rank's input
  std::atomic<std::uint32_t> core;                         // the core at its last publication
  ChunkHeader headers[kChunkBuffers];
  alignas(kLineBytes) std::atomic<std::uint32_t> reduced;  // number of chunks with this rank's slice reduced
  alignas(kLineBytes) std::atomic<std::uint32_t> state;    // SlotState
};
static_assert(offsetof(RankControl, headers) + kChunkBuffers * sizeof(ChunkHeader) <= 64);

struct MailboxControl {
  alignas(kLineBytes) std::atomic<std::uint32_t> written;
  alignas(kLineBytes) std::atomic<std::uint32_t> read;
};

class ShmRegion {
 public:
  static constexpr std::size_t kBuffers = kChunkBuffers;
  static constexpr std::size_t kChunkBytes = 256 << 10;
  static constexpr std::size_t kMailboxBytes = 64 << 10;
  static constexpr std::size_t kMailboxSlots = 2;

  ShmRegion() = default;
  ShmRegion(ShmRegion&& other) noexcept;
  ShmRegion& operator=(ShmRegion&& other) noexcept;
  ~ShmRegion();

  static std::size_t bytes_for(std::size_t ranks);
  // A new region; `memory` receives the descriptor to pass to the other ranks.
  static Result<ShmRegion> create(std::size_t ranks, Socket& memory);
  static Result<ShmRegion> attach(std::size_t ranks, const Socket& memory);

  // Maps all buffers now, so that the first all-reduce does not pay for page faults.
  void prefault();

  bool mapped() const { return base_ != nullptr; }
  GroupHeader& header() const { return *reinterpret_cast<GroupHeader*>(base_); }
  RankControl& control(std::size_t rank) const { return *reinterpret_cast<RankControl*>(slot(rank)); }
  ChunkHeader& chunk_header(std::size_t rank, std::uint64_t chunk) const;
  std::byte* buffer(std::size_t rank, std::uint64_t chunk) const;
  MailboxControl& mailbox(std::size_t from, std::size_t to) const;
  ChunkHeader& mailbox_header(std::size_t from, std::size_t to, std::uint32_t index) const;
  std::byte* mailbox_slot(std::size_t from, std::size_t to, std::uint32_t index) const;

 private:
  ShmRegion(std::byte* base, std::size_t ranks) : base_(base), ranks_(ranks) {}
  static Result<ShmRegion> map(std::size_t ranks, int fd);
  std::byte* slot(std::size_t rank) const;
  std::byte* mailbox_base(std::size_t from, std::size_t to) const;
  void unmap();

  std::byte* base_ = nullptr;
  std::size_t ranks_ = 0;
};

// Passes a descriptor over a Unix connection, together with a few bytes.
Status send_descriptor(const Socket& connection, int fd, std::span<const std::byte> note, const CancelToken& cancel,
                       Deadline deadline);
Result<Socket> receive_descriptor(const Socket& connection, std::span<std::byte> note, const CancelToken& cancel,
                                  Deadline deadline);

}  // namespace elastictrain::comm

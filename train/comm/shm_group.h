// Purpose: collectives among the ranks of one host through shared memory, and their waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "train/comm/blocks.h"
#include "train/comm/operation.h"
#include "train/comm/peer_process.h"
#include "train/comm/shm_region.h"

// Collectives among the ranks of one host through shared memory.
//
// A buffer is processed in chunks that fit the caches. Per chunk and rank there are two counters: `entered` (my input
// is in my buffer) and `reduced` (my slice of the sum is in my buffer). Small all-reduces take one round: each rank
// writes its input and sums all inputs itself, in rank order. Larger ones take two: each rank writes the slices of the
// others, sums its own slice directly from its own memory, and copies the other slices.
//
// Why three buffers are enough: a rank writes chunk c only after all ranks have entered chunk c-1, and a rank enters
// chunk c-1 only after it is done with chunk c-3, whose buffer chunk c uses.
//
// Ownership: the mapping and the connections. Thread: the communicator's; break_up() from any. Failure: any error
// breaks the group for all its ranks. A rank that is gone matters only to ranks that still need its data.

namespace elastictrain::comm {

class ShmGroup {
 public:
  // `connections`: on local rank 0 one to each other local rank, in order; on the others the one to local rank 0.
  static Result<std::unique_ptr<ShmGroup>> build(std::size_t local, std::size_t ranks, std::vector<Socket> connections,
                                                 const OpControl& control, const CancelToken& cancel,
                                                 Deadline deadline);
  ~ShmGroup();

  Status all_reduce(const ReduceVector& vector, ReduceStats* stats);
  // Block r belongs to local rank r and is copied to the same block of all others. Blocks have equal sizes on all
  // ranks.
  Status share(std::span<const Pieces> blocks);
  Status send(std::span<const std::byte> data, std::size_t to);
  Status receive(std::span<std::byte> data, std::size_t from);

  // Readable when a process of this host is gone; check() then tells whether that matters.
  int watch_fd() const { return watch_.fd(); }
  Status check();

  // Breaks the group for all ranks, at once.
  void break_up() noexcept;
  std::uint64_t shared_bytes() const { return shared_bytes_; }

 private:
  using Counter = std::atomic<std::uint32_t>;

  ShmGroup(std::size_t local, std::size_t ranks, const OpControl& control);
  Status create(std::vector<Socket>& connections, const CancelToken& cancel, Deadline deadline);
  Status attach(std::vector<Socket>& connections, const CancelToken& cancel, Deadline deadline);

  void begin_operation(char kind, std::uint64_t bytes);
  void enter(std::uint64_t chunk);  // publishes this rank's input, which must be in its buffer
  Status await_all_entered();
  Status check_header(std::size_t rank) const;
  Status mismatch(std::size_t rank, const ChunkHeader& theirs) const;

  Status all_reduce_small(const ReduceVector& vector, ReduceStats* stats);

  // One chunk of a large all-reduce: [begin, end) of the vector.
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  Range slice_of(Range range, std::size_t rank) const;
  // The progress of an all-reduce: up to here all slices but this rank's own are written, and its own are summed.
  struct Reach {
    std::size_t put = 0;
    std::size_t summed = 0;
  };
  Status all_reduce_large(const ReduceVector& vector, ReduceStats* stats);
  Status reduce_chunks(const ReduceVector& vector, ReduceStats* stats, Reach& reach);
  void keep_rest(const ReduceVector& vector, const Reach& reach) const;
  void put_slices(const ReduceVector& vector, Range range, std::uint64_t chunk, ReduceStats* stats);
  void reduce_own_slice(const ReduceVector& vector, Range range, ReduceStats* stats);
  Status fetch_slices(const ReduceVector& vector, Range range, ReduceStats* stats);

  void copy_in(const Pieces& block, std::size_t offset);
  void copy_out(const Pieces& block, std::size_t offset, std::size_t rank);

  // The core of this thread. If the awaited rank shares it, that rank can continue only when this one yields.
  static std::uint32_t current_core() noexcept;
  bool shares_core_with(std::size_t peer) const noexcept;
  // If two ranks keep meeting on one core while there is a core for each, one moves.
  void note_shared_core(std::size_t peer) noexcept;

  void publish(Counter& counter, std::uint32_t value) noexcept;
  Status wait_for(Counter& counter, std::uint32_t target, std::size_t peer);
  Status wait_slowly(Counter& counter, std::uint32_t target, std::size_t peer);
  void sleep_on(Counter& counter, std::uint32_t seen, std::uint32_t target);
  // Ends a wait that cannot succeed: broken group, abort, deadline, or the awaited peer has left.
  Status check_wait(std::size_t peer);
  void wake_everybody() noexcept;

  float* floats(std::size_t rank, std::uint64_t chunk) const {
    return reinterpret_cast<float*>(region_.buffer(rank, chunk));
  }

  const std::size_t local_;
  const std::size_t ranks_;
  const OpControl& control_;
  ShmRegion region_;
  PeerWatch watch_;
  std::uint64_t chunk_ = 0;  // number of the current one, over all operations
  std::uint64_t operation_ = 0;
  ChunkHeader current_;
  int waits_on_shared_core_ = 0;
  // Doubles with every move: if the scheduler keeps moving the thread back, moves only cost time.
  int waits_before_move_ = 100;
  std::uint64_t shared_bytes_ = 0;
  std::vector<const float*> inputs_;
};

}  // namespace elastictrain::comm

#include "train/comm/shm_group.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "supervisor/protocol/check.h"
#include "train/comm/kernels.h"
#include "train/comm/operation.h"
#include "train/comm/peer_process.h"

namespace elastictrain::comm {
namespace {

// Up to this size it is cheaper that every rank reads all inputs than to run a second round.
constexpr std::size_t kSmallBytes = 8 << 10;
constexpr std::size_t kMaxRanks = 1024;

// 0 if the block ends before `offset`.
std::size_t chunk_bytes(const Pieces& block, std::size_t offset) {
  return offset < block.size() ? std::min(ShmRegion::kChunkBytes, block.size() - offset) : 0;
}

}  // namespace

ShmGroup::ShmGroup(std::size_t local, std::size_t ranks, const OpControl& control)
    : local_(local), ranks_(ranks), control_(control), inputs_(ranks) {
  ET_CHECK(local_ < ranks_, "a rank has a place on its host");
}

ShmGroup::~ShmGroup() {
  if (region_.mapped()) {
    region_.control(local_).state.store(static_cast<std::uint32_t>(SlotState::kLeft), std::memory_order_seq_cst);
    wake_everybody();
  }
}

Result<std::unique_ptr<ShmGroup>> ShmGroup::build(std::size_t local, std::size_t ranks, std::vector<Socket> connections,
                                                  const OpControl& control, const CancelToken& cancel,
                                                  Deadline deadline) {
  if (ranks > kMaxRanks) return Error{ErrorCode::kInvalid, "more than 1024 ranks on one host"};
  ET_CHECK(connections.size() == (local == 0 ? ranks - 1 : 1), "the first rank of a host meets all the others");
  std::unique_ptr<ShmGroup> group(new ShmGroup(local, ranks, control));
  if (auto status = group->watch_.open(); !status) return status.error();
  auto status =
      local == 0 ? group->create(connections, cancel, deadline) : group->attach(connections, cancel, deadline);
  if (!status) return status.error();
  group->region_.prefault();
  return group;
}

// The first rank creates the memory and sends all pids, as reported by the kernel, to all ranks.
Status ShmGroup::create(std::vector<Socket>& connections, const CancelToken& cancel, Deadline deadline) {
  Socket memory;
  auto region = ShmRegion::create(ranks_, memory);
  if (!region) return region.error();
  region_ = std::move(*region);
  std::vector<pid_t> pids{::getpid()};
  for (const auto& connection : connections) pids.push_back(peer_pid(connection.fd()));
  for (std::size_t peer = 1; peer < ranks_; ++peer) {
    auto& connection = connections[peer - 1];
    const auto note = std::as_bytes(std::span(pids));
    if (auto sent = send_descriptor(connection, memory.fd(), note, cancel, deadline); !sent) return sent;
    if (auto watched = watch_.add(peer, std::move(connection), pids[peer]); !watched) return watched;
  }
  return {};
}

Status ShmGroup::attach(std::vector<Socket>& connections, const CancelToken& cancel, Deadline deadline) {
  std::vector<pid_t> pids(ranks_);
  auto memory = receive_descriptor(connections[0], std::as_writable_bytes(std::span(pids)), cancel, deadline);
  if (!memory) return memory.error();
  auto region = ShmRegion::attach(ranks_, *memory);
  if (!region) return region.error();
  region_ = std::move(*region);
  for (std::size_t peer = 0; peer < ranks_; ++peer) {
    if (peer == local_) continue;
    auto connection = peer == 0 ? std::move(connections[0]) : Socket();
    if (auto watched = watch_.add(peer, std::move(connection), pids[peer]); !watched) return watched;
  }
  return {};
}

void ShmGroup::begin_operation(char kind, std::uint64_t bytes) {
  ++operation_;
  current_ = {operation_ << 8 | static_cast<unsigned char>(kind), bytes};
}

void ShmGroup::enter(std::uint64_t chunk) {
  auto& control = region_.control(local_);
  region_.chunk_header(local_, chunk) = current_;
  control.core.store(current_core(), std::memory_order_relaxed);
  publish(control.entered, static_cast<std::uint32_t>(chunk + 1));
}

Status ShmGroup::await_all_entered() {
  for (std::size_t peer = 0; peer < ranks_; ++peer) {
    if (peer == local_) continue;
    auto status = wait_for(region_.control(peer).entered, static_cast<std::uint32_t>(chunk_ + 1), peer);
    if (status) status = check_header(peer);
    if (!status) return status;
  }
  return {};
}

Status ShmGroup::check_header(std::size_t rank) const {
  const ChunkHeader& theirs = region_.chunk_header(rank, chunk_);
  if (theirs.operation == current_.operation && theirs.bytes == current_.bytes) [[likely]]
    return {};
  return mismatch(rank, theirs);
}

Status ShmGroup::mismatch(std::size_t rank, const ChunkHeader& theirs) const {
  return Error{
      ErrorCode::kMismatch,
      "ranks disagree about a collective operation: here number " + std::to_string(current_.operation >> 8) + " with " +
          std::to_string(current_.bytes) + " bytes, at local rank " + std::to_string(rank) + " number " +
          std::to_string(theirs.operation >> 8) + " with " + std::to_string(theirs.bytes) + " bytes." +
          kinds_text(static_cast<char>(current_.operation & 0xff), static_cast<char>(theirs.operation & 0xff)) +
          " Call the same operations with the same sizes on all ranks."};
}

Status ShmGroup::all_reduce(const ReduceVector& vector, ReduceStats* stats) {
  const std::size_t bytes = vector.size() * sizeof(float);
  begin_operation(kind_of_sum(vector.element()), bytes);
  shared_bytes_ += bytes;
  return bytes <= kSmallBytes ? all_reduce_small(vector, stats) : all_reduce_large(vector, stats);
}

Status ShmGroup::all_reduce_small(const ReduceVector& vector, ReduceStats* stats) {
  vector.for_runs(0, vector.size(), [&](const auto& run, std::size_t offset) {
    run.keep_input();
    if (stats != nullptr && run.is_data) stats->local_square_sum += square_sum(run.values, run.count);
    copy_scaled(floats(local_, chunk_) + offset, run.values, run.count, run.scale);
  });
  enter(chunk_);
  if (auto status = await_all_entered(); !status) return status;
  vector.for_runs(0, vector.size(), [&](const auto& run, std::size_t offset) {
    for (std::size_t rank = 0; rank < ranks_; ++rank) inputs_[rank] = floats(rank, chunk_) + offset;
    sum_of(run.values, inputs_, run.count);
    if (stats != nullptr && run.is_data) stats->reduced_square_sum += square_sum(run.values, run.count);
  });
  ++chunk_;
  return {};
}

Status ShmGroup::share(std::span<const Pieces> blocks) {
  ET_CHECK(blocks.size() == ranks_, "every rank of a host has one block");
  std::size_t longest = 0;
  std::uint64_t total = 0;
  for (const auto& block : blocks) {
    longest = std::max(longest, block.size());
    total += block.size();
  }
  begin_operation(kShareKind, total);
  shared_bytes_ += total;
  std::size_t offset = 0;
  do {
    copy_in(blocks[local_], offset);
    enter(chunk_);
    if (auto status = await_all_entered(); !status) return status;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (rank != local_) copy_out(blocks[rank], offset, rank);
    }
    ++chunk_;
    offset += ShmRegion::kChunkBytes;
  } while (offset < longest);
  return {};
}

void ShmGroup::copy_in(const Pieces& block, std::size_t offset) {
  block.get(offset, {region_.buffer(local_, chunk_), chunk_bytes(block, offset)});
}

void ShmGroup::copy_out(const Pieces& block, std::size_t offset, std::size_t rank) {
  block.put(offset, {region_.buffer(rank, chunk_), chunk_bytes(block, offset)});
}

Status ShmGroup::send(std::span<const std::byte> data, std::size_t to) {
  ET_CHECK(to < ranks_ && to != local_, "a message is for another rank of this host");
  auto& box = region_.mailbox(local_, to);
  std::size_t offset = 0;
  do {
    const auto number = box.written.load(std::memory_order_relaxed);
    if (auto status = wait_for(box.read, number + 1 - ShmRegion::kMailboxSlots, to); !status) return status;
    const auto length = std::min(data.size() - offset, ShmRegion::kMailboxBytes);
    std::byte* slot = region_.mailbox_slot(local_, to, number);
    region_.mailbox_header(local_, to, number) = {0, data.size()};
    if (length > 0) std::memcpy(slot, data.data() + offset, length);
    publish(box.written, number + 1);
    offset += length;
  } while (offset < data.size());
  shared_bytes_ += data.size();
  return {};
}

Status ShmGroup::receive(std::span<std::byte> data, std::size_t from) {
  ET_CHECK(from < ranks_ && from != local_, "a message is from another rank of this host");
  auto& box = region_.mailbox(from, local_);
  std::size_t offset = 0;
  do {
    const auto number = box.read.load(std::memory_order_relaxed);
    if (auto status = wait_for(box.written, number + 1, from); !status) return status;
    const std::uint64_t sent = region_.mailbox_header(from, local_, number).bytes;
    if (sent != data.size()) {
      return Error{ErrorCode::kInvalid, "a message of " + std::to_string(sent) + " bytes arrived where " +
                                            std::to_string(data.size()) + " bytes were expected"};
    }
    const auto length = std::min(data.size() - offset, ShmRegion::kMailboxBytes);
    if (length > 0) std::memcpy(data.data() + offset, region_.mailbox_slot(from, local_, number), length);
    publish(box.read, number + 1);
    offset += length;
  } while (offset < data.size());
  return {};
}

// The large all-reduce of ShmGroup: every rank sums one slice of every chunk.
namespace {

constexpr std::size_t kChunkFloats = ShmRegion::kChunkBytes / sizeof(float);
// Small enough for the first-level cache, so that a slice is summed and stored in one pass over memory.
constexpr std::size_t kBlockFloats = 2048;

}  // namespace

ShmGroup::Range ShmGroup::slice_of(Range range, std::size_t rank) const {
  const std::size_t length = range.end - range.begin;
  return {range.begin + part_begin(length, ranks_, rank), range.begin + part_begin(length, ranks_, rank + 1)};
}

Status ShmGroup::all_reduce_large(const ReduceVector& vector, ReduceStats* stats) {
  Reach reach;
  auto status = reduce_chunks(vector, stats, reach);
  if (!status) keep_rest(vector, reach);
  return status;
}

// Everything that was written or summed has been kept before.
void ShmGroup::keep_rest(const ReduceVector& vector, const Reach& reach) const {
  for (std::size_t begin = reach.summed; begin < reach.put; begin += kChunkFloats) {
    const Range own = slice_of({begin, std::min(reach.put, begin + kChunkFloats)}, local_);
    vector.keep(own.begin, own.end);
  }
  vector.keep(reach.put, vector.size());
}

// The input of chunk k+1 is written before the wait for the sums of chunk k, so that no rank idles between the two.
Status ShmGroup::reduce_chunks(const ReduceVector& vector, ReduceStats* stats, Reach& reach) {
  const std::size_t total = vector.size();
  const auto range_at = [&](std::size_t begin) { return Range{begin, std::min(total, begin + kChunkFloats)}; };
  put_slices(vector, range_at(0), chunk_, stats);
  reach.put = range_at(0).end;
  enter(chunk_);
  for (std::size_t begin = 0; begin < total; begin += kChunkFloats) {
    if (auto status = await_all_entered(); !status) return status;
    reduce_own_slice(vector, range_at(begin), stats);
    reach.summed = range_at(begin).end;
    publish(region_.control(local_).reduced, static_cast<std::uint32_t>(chunk_ + 1));
    if (begin + kChunkFloats < total) {
      put_slices(vector, range_at(begin + kChunkFloats), chunk_ + 1, stats);
      reach.put = range_at(begin + kChunkFloats).end;
      enter(chunk_ + 1);
    }
    if (auto status = fetch_slices(vector, range_at(begin), stats); !status) return status;
    ++chunk_;
  }
  return {};
}

void ShmGroup::put_slices(const ReduceVector& vector, Range range, std::uint64_t chunk, ReduceStats* stats) {
  float* buffer = floats(local_, chunk);
  const Range own = slice_of(range, local_);
  const auto put = [&](std::size_t begin, std::size_t end) {
    vector.for_runs(begin, end, [&](const auto& run, std::size_t offset) {
      run.keep_input();
      if (stats != nullptr && run.is_data) stats->local_square_sum += square_sum(run.values, run.count);
      copy_scaled(buffer + (begin - range.begin) + offset, run.values, run.count, run.scale);
    });
  };
  put(range.begin, own.begin);
  put(own.end, range.end);
}

void ShmGroup::reduce_own_slice(const ReduceVector& vector, Range range, ReduceStats* stats) {
  const Range own = slice_of(range, local_);
  for (std::size_t begin = own.begin; begin < own.end; begin += kBlockFloats) {
    const std::size_t end = std::min(own.end, begin + kBlockFloats);
    vector.for_runs(begin, end, [&](const auto& run, std::size_t run_offset) {
      const std::size_t offset = begin - range.begin + run_offset;
      run.keep_input();
      if (stats != nullptr && run.is_data) stats->local_square_sum += square_sum(run.values, run.count);
      float scale = run.scale;
      for (std::size_t peer = 0; peer < ranks_; ++peer) {
        if (peer == local_) continue;
        scale_add(run.values, floats(peer, chunk_) + offset, run.count, scale);
        scale = 1.0F;
      }
      std::memcpy(floats(local_, chunk_) + offset, run.values, run.count * sizeof(float));
    });
  }
}

// The square sum goes over all slices in rank order, so that it is the same number on every rank.
Status ShmGroup::fetch_slices(const ReduceVector& vector, Range range, ReduceStats* stats) {
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    const Range slice = slice_of(range, rank);
    if (rank != local_) {
      auto status = wait_for(region_.control(rank).reduced, static_cast<std::uint32_t>(chunk_ + 1), rank);
      if (!status) return status;
    }
    vector.for_runs(slice.begin, slice.end, [&](const auto& run, std::size_t offset) {
      const float* sum = floats(rank, chunk_) + (slice.begin - range.begin) + offset;
      if (rank != local_) std::memcpy(run.values, sum, run.count * sizeof(float));
      if (stats != nullptr && run.is_data) stats->reduced_square_sum += square_sum(run.values, run.count);
    });
  }
  return {};
}

// How ShmGroup waits: it spins, then yields the core, then sleeps in futex(2), and watches the peers meanwhile.
namespace {

constexpr long kSleepNanoseconds = 2'000'000;
constexpr int kYieldsBetweenChecks = 64;
constexpr int kMaxWaitsBeforeMove = 1 << 20;

// Counters wrap around; only their distance matters.
bool reached(const std::atomic<std::uint32_t>& counter, std::uint32_t target) {
  return static_cast<std::int32_t>(counter.load(std::memory_order_acquire) - target) >= 0;
}

void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

// Moves this thread to another core once; its affinity mask stays as it was.
void leave_core(std::uint32_t core) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(core, &others);
  if (CPU_COUNT(&others) == 0 || ::sched_setaffinity(0, sizeof others, &others) != 0) return;
  ::sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace

// Sequentially consistent on both sides: either the publisher sees the sleeper, or the sleeper sees the new value.
void ShmGroup::publish(Counter& counter, std::uint32_t value) noexcept {
  counter.store(value, std::memory_order_seq_cst);
  if (region_.header().sleepers.load(std::memory_order_seq_cst) != 0) wake(counter);
}

std::uint32_t ShmGroup::current_core() noexcept {
  return static_cast<std::uint32_t>(::sched_getcpu());
}

bool ShmGroup::shares_core_with(std::size_t peer) const noexcept {
  return region_.control(peer).core.load(std::memory_order_relaxed) == current_core();
}

// The scheduler places ranks that wake each other through sockets together, and leaves them there on a busy machine.
void ShmGroup::note_shared_core(std::size_t peer) noexcept {
  if (control_.crowded() || local_ < peer || ++waits_on_shared_core_ < waits_before_move_) return;
  waits_on_shared_core_ = 0;
  waits_before_move_ = std::min(2 * waits_before_move_, kMaxWaitsBeforeMove);
  leave_core(current_core());
}

Status ShmGroup::wait_for(Counter& counter, std::uint32_t target, std::size_t peer) {
  if (reached(counter, target)) [[likely]]
    return {};
  if (shares_core_with(peer)) {
    note_shared_core(peer);
    return wait_slowly(counter, target, peer);
  }
  for (int spin = control_.spins(); spin > 0; --spin) {
    pause_core();
    if (reached(counter, target)) return {};
  }
  return wait_slowly(counter, target, peer);
}

Status ShmGroup::wait_slowly(Counter& counter, std::uint32_t target, std::size_t peer) {
  for (int yield = 1; !reached(counter, target); ++yield) {
    if (yield > control_.yields()) {
      sleep_on(counter, counter.load(std::memory_order_seq_cst), target);
    } else {
      ::sched_yield();
      if (yield % kYieldsBetweenChecks != 0) continue;
    }
    auto status = check_wait(peer);
    // The peer may have published between our read of the counter and its departure.
    if (!status && !(status.error().code == ErrorCode::kPeerLost && reached(counter, target))) return status;
  }
  return {};
}

void ShmGroup::sleep_on(Counter& counter, std::uint32_t seen, std::uint32_t target) {
  auto& sleepers = region_.header().sleepers;
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (!reached(counter, target) && region_.header().broken.load(std::memory_order_seq_cst) == 0 &&
      !control_.aborted()) {
    const timespec limit{0, kSleepNanoseconds};
    ::syscall(SYS_futex, &counter, FUTEX_WAIT, seen, &limit, nullptr, 0);
  }
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

Status ShmGroup::check_wait(std::size_t peer) {
  if (auto status = check(); !status) return status;
  if (region_.control(peer).state.load(std::memory_order_acquire) == static_cast<std::uint32_t>(SlotState::kLeft)) {
    return Error{ErrorCode::kPeerLost, "local rank " + std::to_string(peer) + " closed its communicator"};
  }
  return control_.check();
}

Status ShmGroup::check() {
  if (control_.aborted()) return Error{ErrorCode::kAborted, "the operation was aborted"};
  if (region_.header().broken.load(std::memory_order_acquire) != 0) {
    return Error{ErrorCode::kPeerLost, "another rank of this host aborted or lost a peer"};
  }
  for (auto gone = watch_.gone(); gone; gone = watch_.gone()) {
    const auto state = region_.control(*gone).state.load(std::memory_order_acquire);
    if (state != static_cast<std::uint32_t>(SlotState::kLeft)) {
      return Error{ErrorCode::kPeerLost, "local rank " + std::to_string(*gone) + " exited"};
    }
    watch_.forget(*gone);
  }
  return {};
}

void ShmGroup::break_up() noexcept {
  region_.header().broken.store(1, std::memory_order_seq_cst);
  wake_everybody();
  watch_.hang_up();
}

void ShmGroup::wake_everybody() noexcept {
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    wake(region_.control(rank).entered);
    wake(region_.control(rank).reduced);
  }
}

}  // namespace elastictrain::comm

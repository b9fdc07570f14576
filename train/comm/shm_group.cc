#include "train/comm/shm_group.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "train/comm/kernels.h"
#include "train/comm/operation_kind.h"
#include "train/comm/peer_credentials.h"

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
    : local_(local), ranks_(ranks), control_(control), inputs_(ranks) {}

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

}  // namespace elastictrain::comm

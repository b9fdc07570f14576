#include "train/comm/mpi/mpi_ring.h"

#include <algorithm>
#include <cstring>

#include "train/comm/kernels.h"
#include "train/comm/mpi/mpi_message.h"

namespace elastictrain::comm {

// Steps 0 … size-2 sum, steps size-1 … 2·size-3 distribute the sums.
MpiRing::MpiRing(MpiChannel& channel, RingBlocks& blocks, std::uint32_t rank, std::uint32_t size, bool reduces,
                 std::size_t segment)
    : channel_(channel),
      blocks_(blocks),
      rank_(rank),
      size_(size),
      segment_(segment),
      window_(mpi_ring_window(size)),
      first_step_(reduces ? 0 : size - 1),
      last_step_(2 * size - 3) {}

std::uint32_t MpiRing::block_to_send(std::uint32_t step) const {
  return (rank_ + 2 * size_ - step % size_ - 1) % size_;
}

std::uint32_t MpiRing::segments(std::uint32_t block) const {
  return static_cast<std::uint32_t>((blocks_.bytes_of(block) + segment_ - 1) / segment_);
}

std::size_t MpiRing::segment_bytes(std::uint32_t block, std::uint32_t segment) const {
  return std::min(segment_, blocks_.bytes_of(block) - segment * segment_);
}

Status MpiRing::run() {
  const std::uint32_t own = segments(block_to_send(first_step_));
  std::size_t to_expect = 0;
  for (auto step = first_step_; step <= last_step_; ++step) to_expect += segments(block_to_receive(step));
  std::uint32_t sent = 0;
  while (sent < own || to_expect > 0 || channel_.expected() > 0) {
    bool moved = false;
    for (; to_expect > 0 && channel_.expected() < window_; --to_expect) {
      if (auto status = channel_.expect((rank_ + size_ - 1) % size_); !status) return status;
    }
    if (sent < own && channel_.sending() < window_) {
      if (auto status = send_own_segment(sent++); !status) return status;
      moved = true;
    }
    if (channel_.expected() > 0) {
      auto message = channel_.poll();
      if (!message) return message.error();
      moved = moved || *message;
      if (*message) {
        if (auto status = take(std::move(*message)); !status) return status;
      }
    }
    if (auto status = channel_.let_go_of_sent(); !status) return status;
    if (moved) continue;
    if (auto status = channel_.rest(); !status) return status;
  }
  return channel_.wait_sent();
}

Status MpiRing::send_own_segment(std::uint32_t segment) {
  const auto block = block_to_send(first_step_);
  auto message = channel_.fresh();
  message->header.step = first_step_;
  message->header.segment = segment;
  message->header.bytes = segment_bytes(block, segment);
  blocks_.load(block, segment * segment_, {message->payload, message->header.bytes});
  return channel_.send(std::move(message), (rank_ + 1) % size_);
}

Status MpiRing::take(MpiMessagePtr message) {
  auto& header = message->header;
  const auto step = header.step;
  const auto block = block_to_receive(step);
  const bool fits = step >= first_step_ && step <= last_step_ && header.segment < segments(block) &&
                    header.bytes == segment_bytes(block, header.segment);
  if (!fits) return Error{ErrorCode::kInvalid, "received a segment that does not belong to this operation of the ring"};
  const std::size_t offset = header.segment * segment_;
  const std::span<std::byte> bytes(message->payload, header.bytes);
  if (sums_at(step + 1)) {
    blocks_.add_to(block, offset, bytes);
  } else if (sums_at(step)) {
    blocks_.add_and_store(block, offset, bytes);
  } else {
    blocks_.store(block, offset, bytes);
  }
  if (step == last_step_) {
    channel_.recycle(std::move(message));
    return {};
  }
  ++header.step;
  return channel_.send(std::move(message), (rank_ + 1) % size_);
}

namespace {

// Calls f(run, values) for the parts of the vector that correspond to `bytes`, which start at element `first`.
template <class F>
void for_values(const ReduceVector& vector, std::size_t first, std::span<std::byte> bytes, F f) {
  auto* const values = reinterpret_cast<float*>(bytes.data());
  vector.for_runs(first, first + bytes.size() / sizeof(float),
                  [&](const ReduceVector::Run& run, std::size_t at) { f(run, values + at); });
}

}  // namespace

void ReduceBlocks::load(std::uint32_t block, std::size_t offset, std::span<std::byte> out) {
  for_values(vector_, begin(block) + offset / sizeof(float), out,
             [](const auto& run, float* values) { copy_scaled(values, run.values, run.count, run.scale); });
}

void ReduceBlocks::add_to(std::uint32_t block, std::size_t offset, std::span<std::byte> sum) {
  for_values(vector_, begin(block) + offset / sizeof(float), sum,
             [](const auto& run, float* values) { add_scaled(values, run.values, run.count, run.scale); });
}

void ReduceBlocks::add_and_store(std::uint32_t block, std::size_t offset, std::span<std::byte> sum) {
  stored_[block].push_back(offset);
  for_values(vector_, begin(block) + offset / sizeof(float), sum, [](const auto& run, float* values) {
    run.keep_input();
    add_scaled_to_both(values, run.values, run.count, run.scale);
  });
}

void ReduceBlocks::store(std::uint32_t block, std::size_t offset, std::span<const std::byte> result) {
  stored_[block].push_back(offset);
  const auto* const from = reinterpret_cast<const float*>(result.data());
  const std::size_t first = begin(block) + offset / sizeof(float);
  vector_.for_runs(first, first + result.size() / sizeof(float), [&](const ReduceVector::Run& run, std::size_t at) {
    run.keep_input();
    std::memcpy(run.values, from + at, run.count * sizeof(float));
  });
}

void ReduceBlocks::keep_the_rest(std::size_t segment) const {
  for (std::uint32_t block = 0; block < size_; ++block) {
    for (std::size_t offset = 0; offset < bytes_of(block); offset += segment) {
      const auto& stored = stored_[block];
      if (std::find(stored.begin(), stored.end(), offset) != stored.end()) continue;
      const std::size_t first = begin(block) + offset / sizeof(float);
      const std::size_t bytes = std::min(segment, bytes_of(block) - offset);
      vector_.for_runs(first, first + bytes / sizeof(float),
                       [](const ReduceVector::Run& run, std::size_t) { run.keep_input(); });
    }
  }
}

void ShareBlocks::load(std::uint32_t block, std::size_t offset, std::span<std::byte> out) {
  blocks_[block].get(offset, out);
}

void ShareBlocks::add_to(std::uint32_t, std::size_t, std::span<std::byte>) {}

void ShareBlocks::add_and_store(std::uint32_t, std::size_t, std::span<std::byte>) {}

void ShareBlocks::store(std::uint32_t block, std::size_t offset, std::span<const std::byte> result) {
  blocks_[block].put(offset, result);
}

}  // namespace elastictrain::comm

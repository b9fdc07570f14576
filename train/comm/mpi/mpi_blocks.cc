#include "train/comm/mpi/mpi_blocks.h"

#include <algorithm>
#include <cstring>

#include "train/comm/kernels.h"

namespace elastictrain::comm {
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

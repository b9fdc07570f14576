#include "train/state/state_buffers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace elastictrain::state {
namespace {

constexpr std::uint64_t kMultipliers[4] = {0x9e3779b97f4a7c15ULL, 0xbf58476d1ce4e5b9ULL, 0x94d049bb133111ebULL,
                                           0xd6e8feb86659fd93ULL};

std::uint64_t load(const unsigned char* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a ^ kMultipliers[0]) * (b ^ kMultipliers[1]);
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed) {
  // Four independent lanes, so that the multiplications overlap; each lane step is a bijection of the lane's value.
  std::uint64_t lane[4] = {seed, seed + 1, seed + 2, seed + 3};
  const auto* at = static_cast<const unsigned char*>(data);
  std::size_t left = bytes;
  for (; left >= 32; left -= 32, at += 32) {
    for (int i = 0; i < 4; ++i) {
      lane[i] = (lane[i] ^ load(at + 8 * i)) * kMultipliers[i];
      lane[i] ^= lane[i] >> 29;
    }
  }
  unsigned char tail[32] = {};
  if (left != 0) std::memcpy(tail, at, left);
  for (int i = 0; i < 4; ++i) lane[i] = (lane[i] ^ load(tail + 8 * i)) * kMultipliers[i];
  return fold(fold(lane[0], lane[1]) ^ bytes, fold(lane[2], lane[3]));
}

bool StateBuffers::add(std::string_view name, void* data, std::size_t bytes) {
  const auto taken = [&](const Buffer& buffer) { return buffer.name == name; };
  if (std::any_of(buffers_.begin(), buffers_.end(), taken)) return false;
  buffers_.push_back({std::string(name), static_cast<std::byte*>(data), bytes});
  total_bytes_ += bytes;
  return true;
}

StateBuffers StateBuffers::shadow(std::vector<std::byte>& storage) const {
  storage.resize(total_bytes_);
  StateBuffers shadow;
  std::size_t offset = 0;
  for (const auto& buffer : buffers_) {
    shadow.add(buffer.name, storage.data() + offset, buffer.bytes);
    offset += buffer.bytes;
  }
  return shadow;
}

void StateBuffers::copy_from(const StateBuffers& other) const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    std::copy_n(other.buffers_[i].data, buffers_[i].bytes, buffers_[i].data);
  }
}

std::uint64_t StateBuffers::layout_hash() const {
  std::uint64_t hash = buffers_.size();
  for (const auto& buffer : buffers_)
    hash = fold(hash_bytes(buffer.name.data(), buffer.name.size(), hash), buffer.bytes);
  return hash;
}

std::uint64_t StateBuffers::content_hash() const {
  std::uint64_t hash = 0;
  for (const auto& buffer : buffers_) hash = hash_bytes(buffer.data, buffer.bytes, hash);
  return hash;
}

void StateBuffers::populate() const {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (const auto& buffer : buffers_) {
    const auto begin = (reinterpret_cast<std::uintptr_t>(buffer.data) + page - 1) / page * page;
    const auto end = (reinterpret_cast<std::uintptr_t>(buffer.data) + buffer.bytes) / page * page;
    // Only a matter of speed: memory of another kind, or a kernel before 5.14, refuses.
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
  }
}

std::span<std::byte> StateBuffers::piece(std::uint64_t offset, std::uint64_t limit) const {
  for (const auto& buffer : buffers_) {
    if (offset < buffer.bytes) return {buffer.data + offset, std::min<std::uint64_t>(limit, buffer.bytes - offset)};
    offset -= buffer.bytes;
  }
  return {};
}

Slice slice_of(std::uint64_t total_bytes, std::uint32_t index, std::uint32_t count) {
  constexpr std::uint64_t kLine = 64;
  const auto edge = [&](std::uint64_t i) {
    const auto lines = (total_bytes + kLine - 1) / kLine;
    return std::min(total_bytes, lines * i / count * kLine);
  };
  return {edge(index), edge(index + 1) - edge(index)};
}

}  // namespace elastictrain::state

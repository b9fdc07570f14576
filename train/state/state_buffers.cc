#include "train/state/state_buffers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "supervisor/protocol/check.h"

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

std::string describe_buffer(const Buffer& buffer) {
  if (!buffer.type) return buffer.name + ", " + std::to_string(buffer.bytes) + " bytes\n";
  std::string shape;
  for (const auto length : buffer.type->shape) shape += (shape.empty() ? "" : ",") + std::to_string(length);
  return buffer.name + " " + buffer.type->dtype + "[" + shape + "]\n";
}

}  // namespace

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed) {
  // Four independent lanes, so that the multiplications overlap. Each lane step is a bijection of the lane's value.
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
  for (int i = 0; i < 4; ++i) {
    lane[i] = (lane[i] ^ load(tail + 8 * i)) * kMultipliers[i];
    lane[i] ^= lane[i] >> 29;  // a lane of 1 would be its multiplier, which the fold takes to zero
  }
  return fold(fold(lane[0], lane[1]) ^ bytes, fold(lane[2], lane[3]));
}

Status Piece::read(std::span<std::byte> into) const {
  if (port != nullptr) return port->read(data, into.first(bytes));
  if (data != into.data()) std::copy_n(data, bytes, into.data());
  return {};
}

Status Piece::write(std::span<const std::byte> from) const {
  if (port != nullptr) return port->write(data, from.first(bytes));
  std::copy_n(from.data(), bytes, data);
  return {};
}

Result<std::span<const std::byte>> HostView::of(const Piece& piece) {
  if (piece.port == nullptr) return std::span<const std::byte>(piece.data, piece.bytes);
  copy_.resize(std::max(copy_.size(), piece.bytes));
  if (auto status = piece.read(copy_); !status) return status.error();
  return std::span<const std::byte>(copy_).first(piece.bytes);
}

std::span<std::byte> HostView::to_fill(const Piece& piece) {
  if (piece.port == nullptr) return {piece.data, piece.bytes};
  copy_.resize(std::max(copy_.size(), piece.bytes));
  return std::span(copy_).first(piece.bytes);
}

Status HostView::written(const Piece& piece, std::size_t bytes) {
  if (piece.port == nullptr) return {};
  return Piece{piece.data, bytes, piece.port}.write(copy_);
}

bool StateBuffers::add(std::string_view name, void* data, std::size_t bytes, MemoryPort* port,
                       std::optional<TensorType> type) {
  if (!places_.try_emplace(std::string(name), buffers_.size()).second) return false;
  buffers_.push_back({std::string(name), static_cast<std::byte*>(data), bytes, port, std::move(type)});
  total_bytes_ += bytes;
  ends_.push_back(total_bytes_);
  return true;
}

std::byte* StateBuffers::move(std::string_view name, void* data) {
  const auto found = places_.find(std::string(name));
  if (found == places_.end() || buffers_[found->second].port != nullptr) return nullptr;
  return std::exchange(buffers_[found->second].data, static_cast<std::byte*>(data));
}

StateBuffers StateBuffers::shadow(std::vector<std::byte>& storage) const {
  storage.resize(total_bytes_);
  StateBuffers shadow;
  std::size_t offset = 0;
  for (const auto& buffer : buffers_) {
    shadow.add(buffer.name, storage.data() + offset, buffer.bytes, nullptr, buffer.type);
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
  for (const auto& buffer : buffers_) {
    hash = fold(hash_bytes(buffer.name.data(), buffer.name.size(), hash), buffer.bytes);
    if (!buffer.type) continue;
    hash = hash_bytes(buffer.type->dtype.data(), buffer.type->dtype.size(), hash);
    for (const auto length : buffer.type->shape) hash = fold(hash, length);
  }
  return hash;
}

std::string StateBuffers::describe(std::size_t max_bytes) const {
  std::string text;
  for (const auto& buffer : buffers_) {
    const std::string line = describe_buffer(buffer);
    if (text.size() + line.size() > max_bytes) break;
    text += line;
  }
  return text;
}

Result<std::uint64_t> StateBuffers::content_hash() const {
  std::uint64_t hash = 0;
  HostView view;
  for (const auto& buffer : buffers_) {
    const auto bytes = view.of({buffer.data, buffer.bytes, buffer.port});
    if (!bytes) return bytes.error();
    hash = hash_bytes(bytes->data(), bytes->size(), hash);
  }
  return hash;
}

void StateBuffers::populate() const {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (const auto& buffer : buffers_) {
    if (buffer.port != nullptr) continue;
    const auto begin = (reinterpret_cast<std::uintptr_t>(buffer.data) + page - 1) / page * page;
    const auto end = (reinterpret_cast<std::uintptr_t>(buffer.data) + buffer.bytes) / page * page;
    // Affects speed only: another kind of memory, or a kernel before 5.14, refuses it.
    if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_WRITE);
  }
}

const std::string& StateBuffers::name_at(std::uint64_t offset) const {
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), offset);
  ET_CHECK(end != ends_.end(), "the byte is in a buffer");
  return buffers_[static_cast<std::size_t>(end - ends_.begin())].name;
}

Piece StateBuffers::piece(std::uint64_t offset, std::uint64_t limit) const {
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), offset);
  if (end == ends_.end()) return {};
  const auto& buffer = buffers_[static_cast<std::size_t>(end - ends_.begin())];
  const std::uint64_t left = *end - offset;
  return {buffer.data + (buffer.bytes - left), std::min(limit, left), buffer.port};
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

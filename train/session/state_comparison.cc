#include "train/session/state_comparison.h"

#include <algorithm>

namespace elastictrain::session {
namespace {

constexpr std::uint64_t kComparedBytes = 1U << 20;  // of a piece, at most

// Calls visit(piece) until it returns false.
template <typename Visit>
void each_piece(const state::StateBuffers& buffers, state::Slice slice, DeviceState device_state, const Visit& visit) {
  const std::uint64_t end = slice.offset + slice.length;
  for (std::uint64_t offset = slice.offset; offset < end;) {
    const auto piece = buffers.piece(offset, std::min(kComparedBytes, end - offset));
    const bool is_here = piece.port == nullptr || device_state == DeviceState::kThroughHost;
    if (is_here && !visit(piece, offset)) return;
    offset += piece.bytes;
  }
}

}  // namespace

Result<std::vector<std::uint64_t>> piece_hashes(const state::StateBuffers& buffers, state::Slice slice,
                                                DeviceState device_state) {
  std::vector<std::uint64_t> hashes;
  Status failure;
  state::HostView view;
  each_piece(buffers, slice, device_state, [&](const state::Piece& piece, std::uint64_t) {
    const auto bytes = view.of(piece);
    if (!bytes) failure = bytes.error();
    if (bytes) hashes.push_back(state::hash_bytes(bytes->data(), bytes->size(), 0));
    return failure.ok();
  });
  if (!failure) return failure.error();
  return hashes;
}

std::size_t piece_count(const state::StateBuffers& buffers, state::Slice slice, DeviceState device_state) {
  std::size_t count = 0;
  each_piece(buffers, slice, device_state, [&](const state::Piece&, std::uint64_t) { return ++count != 0; });
  return count;
}

std::string piece_name(const state::StateBuffers& buffers, state::Slice slice, DeviceState device_state,
                       std::size_t piece) {
  std::string name;
  each_piece(buffers, slice, device_state, [&](const state::Piece&, std::uint64_t offset) {
    name = buffers.name_at(offset);
    return piece-- != 0;
  });
  return name;
}

}  // namespace elastictrain::session

#include "train/session/first_broadcast.h"

#include <cstddef>
#include <string>
#include <utility>

namespace elastictrain::session {
namespace {

Status broadcast_bytes(const Seat& seat, void* data, std::size_t bytes, const std::string& what) {
  const Status status = seat.communicator->broadcast({static_cast<std::byte*>(data), bytes}, 0);
  if (status) return {};
  return Error{status.error().code, "the first broadcast (" + what + ") of generation " +
                                        std::to_string(seat.generation) + " failed: " + status.error().message};
}

// Through host memory, where the buffer is in a device's.
Status broadcast_buffer(const Seat& seat, const state::Buffer& buffer, state::HostView& view) {
  const state::Piece piece{buffer.data, buffer.bytes, buffer.port};
  const auto memory = view.to_fill(piece);
  const bool sends = seat.rank == 0;
  Status copied = sends ? piece.read(memory) : Status();
  if (copied) {
    const auto sent = broadcast_bytes(seat, memory.data(), memory.size(), "state \"" + buffer.name + "\"");
    if (!sent) return sent;
    if (!sends) copied = view.written(piece, piece.bytes);
  }
  if (copied) return {};
  return Error{ErrorCode::kInvalid, copied.error().message};
}

}  // namespace

Result<state::TransferHeader> broadcast_header(const Seat& seat, const state::TransferHeader& mine) {
  auto bytes = state::encode_header(mine);
  std::uint64_t length = bytes.size();
  if (auto status = broadcast_bytes(seat, &length, sizeof length, "length"); !status) return status.error();
  if (length > state::kMaxHeaderBytes) {
    return Error{ErrorCode::kInvalid, "rank 0 sent a malformed header: its length is out of range"};
  }
  bytes.resize(length);
  if (auto status = broadcast_bytes(seat, bytes.data(), bytes.size(), "header"); !status) return status.error();
  auto first = state::decode_header(bytes);
  if (!first) return first.error();
  if (first->layout_hash != mine.layout_hash || first->sample_count != mine.sample_count) {
    return Error{ErrorCode::kInvalid,
                 "rank 0 has a different state layout or number of samples; run the same program with "
                 "the same options everywhere"};
  }
  return first;
}

Result<std::vector<std::string>> broadcast_state(const Seat& seat, const state::StateBuffers& buffers, bool compares) {
  state::HostView view;
  std::vector<std::string> replaced;
  for (const auto& buffer : buffers.buffers()) {
    const bool looks = compares && buffer.port == nullptr;
    const auto before = looks ? state::hash_bytes(buffer.data, buffer.bytes, 0) : 0;
    if (auto status = broadcast_buffer(seat, buffer, view); !status) return status.error();
    if (looks && state::hash_bytes(buffer.data, buffer.bytes, 0) != before) replaced.push_back(buffer.name);
  }
  return replaced;
}

}  // namespace elastictrain::session

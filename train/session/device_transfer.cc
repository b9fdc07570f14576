#include "train/session/device_transfer.h"

#include "train/session/control_plane.h"
#include "train/state/progress.h"

namespace elastictrain::session {
namespace {

void add_pieces(const state::StateBuffers& buffers, const state::Slice& slice, std::uint32_t peer, bool receives,
                std::vector<comm::DeviceTransfer>& transfers) {
  const std::uint64_t end = slice.offset + slice.length;
  for (std::uint64_t offset = slice.offset; offset < end;) {
    const auto piece = buffers.piece(offset, end - offset);
    if (piece.port != nullptr) transfers.push_back({piece.data, piece.bytes, peer, receives});
    offset += piece.bytes;
  }
}

}  // namespace

std::vector<comm::DeviceTransfer> device_transfers(const state::StateBuffers& buffers,
                                                   const protocol::GenerationPlan& plan, std::uint32_t rank) {
  const auto donors = donor_ranks(plan);
  std::vector<comm::DeviceTransfer> transfers;
  for (std::uint32_t i = 0; i < donors.size(); ++i) {
    const auto slice = state::slice_of(buffers.total_bytes(), i, static_cast<std::uint32_t>(donors.size()));
    for (const std::uint32_t joiner : joiner_ranks(plan)) {
      if (rank == donors[i]) add_pieces(buffers, slice, joiner, false, transfers);
      if (rank == joiner) add_pieces(buffers, slice, donors[i], true, transfers);
    }
  }
  return transfers;
}

}  // namespace elastictrain::session

// Purpose: checks that donors hold the same state. Besides its own slice each donor sends hashes of the next donor's,
// and the joiner compares them with what that one sent: no joiner takes parts of different states for one. A piece that
// only a donor holds otherwise that neither sends nor compares it is not found; audit mode finds it.
//
// Ownership: none. Thread: the transfer's. Failure: memory of a device that cannot be read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/state/state_buffers.h"

namespace elastictrain::session {

enum class DeviceState { kThroughHost, kElsewhere };

// Of each piece of the slice, in order. Pieces in device memory that travel elsewhere have none.
Result<std::vector<std::uint64_t>> piece_hashes(const state::StateBuffers& buffers, state::Slice slice,
                                                DeviceState device_state);
// How many there are.
std::size_t piece_count(const state::StateBuffers& buffers, state::Slice slice, DeviceState device_state);
// The name of the buffer that holds the piece.
std::string piece_name(const state::StateBuffers& buffers, state::Slice slice, DeviceState device_state,
                       std::size_t piece);

}  // namespace elastictrain::session

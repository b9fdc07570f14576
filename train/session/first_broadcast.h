// Purpose: gives all workers of a first generation the state of the first rank: its header, then the program's buffers.
// Ownership: none. Thread: the training thread. Failure: kInvalid if the first rank runs another program or state in
// device memory cannot be copied, otherwise that of the communicator.
#pragma once

#include <string>
#include <vector>

#include "supervisor/protocol/result.h"
#include "train/session/seat.h"
#include "train/state/progress.h"
#include "train/state/state_buffers.h"

namespace elastictrain::session {

// `mine`: this worker's header, which must have the same layout and data. Returns the first rank's.
Result<state::TransferHeader> broadcast_header(const Seat& seat, const state::TransferHeader& mine);
// Returns the names of the buffers in host memory that held something else here. `compares`: look for them, one more
// pass over the state before and after it arrives.
Result<std::vector<std::string>> broadcast_state(const Seat& seat, const state::StateBuffers& buffers, bool compares);

}  // namespace elastictrain::session

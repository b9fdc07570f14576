// Purpose: which pieces of state go from which device to which when workers join: the donors' slices, as in
// state_transfer.h, without what lies in host memory.
// Thread: pure. Failure: none.
#pragma once

#include <vector>

#include "supervisor/protocol/message.h"
#include "train/comm/communicator.h"
#include "train/state/state_buffers.h"

namespace elastictrain::session {

// Those of `rank`, in the same order for both ends of a pair. Empty where nobody joins.
std::vector<comm::DeviceTransfer> device_transfers(const state::StateBuffers& buffers,
                                                   const protocol::GenerationPlan& plan, std::uint32_t rank);

}  // namespace elastictrain::session

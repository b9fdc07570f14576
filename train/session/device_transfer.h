// Purpose: transfers of pieces of state between devices when workers join: the donors' slices, as in state_transfer.h,
// without the state in host memory. Thread: pure. Failure: none.
#pragma once

#include <vector>

#include "supervisor/protocol/plan_messages.h"
#include "train/comm/device_interfaces.h"
#include "train/state/state_buffers.h"

namespace elastictrain::session {

// The transfers of `rank`, in the same order for both ends of a pair. Empty if no worker joins.
std::vector<comm::DeviceTransfer> device_transfers(const state::StateBuffers& buffers,
                                                   const protocol::GenerationPlan& plan, std::uint32_t rank);

}  // namespace elastictrain::session

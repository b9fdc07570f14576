// Purpose: lets the ranks of a generation learn the result of a build together: in rounds over the host plane, because
// a rank whose build hangs must be notified of a failure on another rank. Thread: the builder's. Failure: the host
// plane's error.
#pragma once

#include <chrono>
#include <functional>

#include "train/comm/communicator.h"

namespace elastictrain::comm {

enum class BuildState : std::uint8_t { kBuilding, kBuilt, kStalled, kFailed };

// Calls `look` once a round, which may take as long as the round, until the communicator is built on all ranks, or has
// failed or stalled on one of them.
Result<BuildState> build_in_rounds(Communicator& host_plane, std::chrono::milliseconds round,
                                   const std::function<BuildState()>& look);

}  // namespace elastictrain::comm

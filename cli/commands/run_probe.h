// Purpose: determines the state of a run from its directory, for a cluster that has lost its connection.
// Reads the run's directory if the run is this user's. What another user names as one is never opened: kUnknown.
// Thread: any; waits for a live run's socket at most a moment. Errors: kUnknown.
#pragma once

#include "supervisor/cluster/core/event.h"

namespace elastictrain::cli {

jobs::Probed probe_run(const jobs::Job& job);

}  // namespace elastictrain::cli

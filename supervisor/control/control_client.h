// Purpose: how the commands beside a run talk to its supervisor. Blocking, with a deadline; no event loop.
// Thread: any. Failure: values that say which run, and what to do.
#pragma once

#include <string>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::control {

// One request and its answer, both one JSON object without the line end (control_protocol.h).
Result<std::string> ask(const std::string& run_directory, const std::string& request, Millis timeout);

// Somebody listens on the run's control socket.
bool is_live(const std::string& run_directory);

// Names of the runs that live under this state directory, sorted.
std::vector<std::string> list_runs(const std::string& state_directory);

}  // namespace elastictrain::control

// Purpose: the client commands' connection to the supervisor of a run. Blocking, with a deadline; no event loop.
// Thread: any. Errors: values that name the run and say what to do.
#pragma once

#include <string>
#include <vector>

#include "supervisor/protocol/ids.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::control {

// One request and its answer, both one JSON object without the line end (control_protocol.h).
Result<std::string> ask(const std::string& run_directory, const std::string& request, Millis timeout);

// Returns whether a process listens on the run's control socket.
bool is_live(const std::string& run_directory);

// Names of the running runs under this state directory, sorted.
std::vector<std::string> list_runs(const std::string& state_directory);

}  // namespace elastictrain::control

// Purpose: `elastictrain status`: the state of a run or a cluster, once or repeatedly.
#pragma once

#include <string>

// Prints the status of a run repeatedly until it ends: `status --watch`, and `top` where there is no terminal
// for it. Thread: the caller's. Returns the exit status.

namespace elastictrain::cli {

int watch_status(const std::string& run_name, double interval_s);

}  // namespace elastictrain::cli

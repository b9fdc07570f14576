// Purpose: prints the status of a run repeatedly until it ends: `status --watch`, and `top` where there is no terminal
// for it. Thread: the caller's. Returns the exit status.
#pragma once

#include <string>

namespace elastictrain::cli {

int watch_status(const std::string& run_name, double interval_s);

}  // namespace elastictrain::cli

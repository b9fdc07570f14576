// Purpose: chooses the Python modules that the hosts of a run import once for all of its workers (workers.preload).
// Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/config/run_config.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

// Errors: modules were asked for and the workers cannot be forked from a process that has imported them.
Result<std::vector<std::string>> plan_preload(const RunConfig& config, bool uses_mpi);

// A PyTorch script that changes nothing: by --torch, or by the package's own runner.
bool is_unchanged_script(const RunConfig& config);

}  // namespace elastictrain::cli

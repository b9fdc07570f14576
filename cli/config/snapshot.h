// Purpose: a resolved configuration as one JSON object that reads back as the same one, for a run that may be resumed.
// Values at their default are omitted.
// Pure. Errors: returned as values that name the key.
#pragma once

#include <string>

#include "cli/config/run_config.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

std::string snapshot_of(const RunConfig& config);
Result<RunConfig> config_of_snapshot(const std::string& snapshot);

}  // namespace elastictrain::cli

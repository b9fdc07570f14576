// Purpose: what is known of every run of this user on this machine: of live ones by asking them, of others from their
// directory. Reads the state directory. Thread: any; waits for each live run, with a limit. Errors: a run that cannot
// be read is listed as such.
#pragma once

#include <string>
#include <vector>

#include "cli/output/run_list.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

// Sorted: live ones first, then the newest first.
Result<std::vector<ListedRun>> known_runs();

// The one in this directory.
ListedRun run_in(const std::string& directory);

}  // namespace elastictrain::cli

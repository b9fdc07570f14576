// Purpose: finds and describes every run of this user on this machine: live ones by asking them, others from their
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

// The names alone, sorted; no run is asked.
std::vector<std::string> run_names(const std::string& state_directory);

// For a name that no run has: "; did you mean NAME?", or nothing.
std::string meant_run(const std::string& name, const std::string& state_directory);

}  // namespace elastictrain::cli

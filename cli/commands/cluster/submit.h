// Purpose: `elastictrain submit`: gives a run to a cluster as a job, with the variables that the job gets.
#pragma once

#include <string>
#include <vector>

#include "cli/config/run_config.h"

// Chooses the variables of this process for a job that its user's own cluster starts later: those by which
// programs, libraries and this program are found and set up, and those that the job names (-x, environment.pass). All
// of them stand in the cluster's journal, so a name that sounds like a secret (SECRET, TOKEN, PASSW, KEY, CREDENTIAL in
// it) comes along only if the job names it in full, and ELASTICTRAIN_SECRET never does.
//
// Pure.

namespace elastictrain::cli {

// `ours`: "NAME=value".
std::vector<std::string> job_environment(const EnvironmentConfig& asked, const std::vector<std::string>& ours);

}  // namespace elastictrain::cli

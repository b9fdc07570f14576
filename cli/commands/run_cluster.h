// Purpose: a cluster process from its file to its end. Blocking. Thread: any one, one at a time.
// Errors: the exit status; the reason is on standard error.
#pragma once

#include <string>

#include "supervisor/cluster/cluster_process.h"

namespace elastictrain::cli {

// `find_broken`: the first rule that does not hold, which ends it with 70.
int run_cluster(const std::string& path, const cluster::FindBroken& find_broken);

}  // namespace elastictrain::cli

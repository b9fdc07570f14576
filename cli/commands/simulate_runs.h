// Purpose: the runs of `elastictrain simulate`: every trace under every policy on every cluster size, side by side on
// all cores. The result does not depend on the number of cores.
#pragma once

#include <functional>
#include <vector>

#include "cli/output/simulated_run.h"

namespace elastictrain::cli {

// Fills in outcome, figures and wall_s of each, and the changes of the first one if asked to. `done` is called from any
// thread after each run, one call at a time.
void simulate_all(std::vector<SimulatedRun>& runs, bool keep_first_changes,
                  const std::function<void(std::size_t)>& done);

}  // namespace elastictrain::cli

// Purpose: takes the next step from the actual state towards the desired one: starts and dismisses workers, and begins
// a change when its workers are ready. A newer desired state supersedes an older one.
#pragma once

#include <vector>

#include "supervisor/core/pure/swap_plan.h"
#include "supervisor/core/run.h"

namespace elastictrain::core {

void reconcile(Run& run);
// Starts and dismisses workers; returns the members of the next generation in rank order.
std::vector<WorkerId> carry_out(Run& run, const SwapDecision& decision);

}  // namespace elastictrain::core

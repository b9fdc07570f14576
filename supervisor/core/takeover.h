// Purpose: takes a run over from a supervisor that is gone. Its agents and workers were not notified: they train on,
// come back one by one, and each repeats its latest messages.
#pragma once

#include "supervisor/core/run.h"

namespace elastictrain::core {

void on(Run& run, const Resumed& event);
// Nothing is decided before every agent is back or given up.
void advance_takeover(Run& run);

}  // namespace elastictrain::core

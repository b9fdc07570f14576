// Purpose: the run as users, progress lines and policies see it, built on demand; and its whole state as one record of
// the journal, for a supervisor that finds records missing.
#pragma once

#include "supervisor/core/pure/run_view.h"
#include "supervisor/core/run.h"

namespace elastictrain::core {

RunView view_of_run(const Run& run);
Journal state_record(const Run& run);

}  // namespace elastictrain::core

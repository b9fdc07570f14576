#include "supervisor/core/advance.h"

#include "supervisor/core/agents.h"
#include "supervisor/core/changing.h"
#include "supervisor/core/ending.h"
#include "supervisor/core/hosts.h"
#include "supervisor/core/reconciling.h"
#include "supervisor/core/recovering.h"

namespace elastictrain::core {

void advance(Run& run) {
  run.out.looked();
  conclude_attempt(run);
  if (run.end.wanted) begin_end(run);
  if (run.recovery.wanted) recover(run);
  if (run.change.stage == Stage::kCommitted && run.change.waiting.empty()) complete_change(run);
  if (run.takeover.waiting) advance_takeover(run);
  halt_for_lease(run);
  if (run.recovery.wanted) return;
  end_unneeded_warm(run);
  if (run.recovery.active()) {
    advance_recovery(run);
  } else if (!run.end.begun()) {
    reconcile(run);
  }
  if (run.end.begun() && !run.end.wanted && !run.end.over) advance_end(run);
  if (!run.end.over) release_agents(run);
}

}  // namespace elastictrain::core

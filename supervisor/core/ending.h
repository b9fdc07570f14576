// Purpose: ends a run: because its program finished, on request, or after a failure; and its audit: which samples
// counted in which step, and whether all workers held the same state.
#pragma once

#include <string>

#include "supervisor/core/run.h"

namespace elastictrain::core {

// Of handlers: the run is to end in this way. A run that ends at once does so whatever else is found.
void want_end(Run& run, EndMode mode, int status, std::string reason);
// Likewise, at once, after a failure.
void fail_run(Run& run, int status, const std::string& reason);
// Of advance(): what was in flight is cancelled, and workers are told.
void begin_end(Run& run);

void member_finished(Run& run);
// A worker in no generation has nothing to wait for any more.
void dismiss_others(Run& run);
// A recovery finds that no worker trains any more, as requested.
void end_without_members(Run& run);
void advance_end(Run& run);
// The program has finished: its processes have the grace to end by themselves.
void limit_finish(Run& run);
void grace_expired(Run& run);

void record_account(Run& run, WorkerId worker, const protocol::WorkerAudit& account);
// What generations before this one used from here on is void.
void fence_accounts(Run& run, const protocol::Fence& begun);

}  // namespace elastictrain::core

// Purpose: recovers from a loss, up to the generation that follows it. A fence ends every collective, every worker
// reports its last step, and the holders of the newest state continue together; others may have to join them first.
// Where too few are left the run waits, halted, for a bounded time; where nobody holds the state it starts again from
// its newest checkpoint, or ends. Workers that cannot build the next generation are left out.
#pragma once

#include <set>
#include <string>

#include "supervisor/core/run.h"

namespace elastictrain::core {

// Of handlers: a training worker is gone (or cannot continue), and the roster is already updated. `why` may be empty:
// nothing to report.
void want_recovery(Run& run, const std::string& why);
// Of advance(): what handlers wanted. A new fence, or, while the workers of the last one have not continued, one worker
// less.
void recover(Run& run);
void on_message(Run& run, Worker& worker, const protocol::WorkerHalted& message);
// A worker that holds the state and has answered can continue, so those that are late are ended. Without one nobody is,
// for failures.hang_max.
void halt_timed_out(Run& run);
// The worker cannot answer yet, since its device works for the collective that was ended.
void device_holds(Run& run, Worker& worker, const std::string& why);
// While a recovery is in progress nothing else changes; the desired state is looked at again afterwards.
void advance_recovery(Run& run);
void shortage_expired(Run& run);
void recovery_prepare_timed_out(Run& run);
// `as`: what it is for a worker that did not answer; one that did has not hung.
void leave_out(Run& run, std::set<WorkerId> guilty, const std::string& why, FailureClass as);

}  // namespace elastictrain::core

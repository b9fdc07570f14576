// Purpose: the one place where a recovery begins, a change is cancelled or completed, and the run ends. Handlers only
// say what they have found: `end.wanted`, `change.late`, `failure` and `unwanted`, `recovery.wanted`.
#pragma once

#include "supervisor/core/run.h"

namespace elastictrain::core {

// One comparison of the desired state with the actual one, in this order. It may cause another (Outbox::must_look).
//
//  1. An attempt to change that has failed, is late or is not wanted any more is cancelled, and perhaps tried again.
//  2. The end that a handler or the attempt wants begins; at once, it ends everything in flight, also a recovery.
//  3. What was lost: a fence, or one worker less behind the one that stands.
//  4. A change is complete when nobody is waited for.
//  5. A run that is taken over waits for its agents; a lease may tell the run to stand still. Either may begin with a
//     fence, which is the next comparison's.
//  6. Warm processes whose slots are needed end.
//  7. While the run recovers, the generation that follows the loss; otherwise the next step to what is desired.
//  8. A run that ends goes on ending.
//  9. Agents that have nothing left are released.
void advance(Run& run);

}  // namespace elastictrain::core

// Purpose: prepares the process of every command before it does anything. Thread: the only one. Failure: a sentence for
// the user.
#pragma once

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

// Standard streams that are closed refer to /dev/null from here on, so that no file or socket gets their number and
// with it what is printed. kUnavailable: the stack is limited to less than the program needs.
Status prepare_process();

}  // namespace elastictrain::cli

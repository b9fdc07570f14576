// Purpose: exits of workers, and causes of a requested end, as statuses and texts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "supervisor/core/pure/event.h"

namespace elastictrain::core {

inline constexpr std::int32_t kSignalKill = 9;
inline constexpr std::int32_t kSignalTerm = 15;

std::string exit_text(const WorkerExited& event);
// The status that a shell would show, without the values that shells and batch systems use for their own errors.
int exit_status_of(const WorkerExited& event);
// ": " and what explains the exit: the exception of Python's last traceback, or the last line that is not empty.
// Nothing where the process was ended from outside or ended well. All lines are in the journal and in the output.
std::string last_words(const WorkerExited& event);

// Of a requested end.
int status_of(StopCause cause);
const char* reason_of(StopCause cause);

}  // namespace elastictrain::core

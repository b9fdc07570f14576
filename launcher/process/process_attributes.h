// Purpose: attributes of processes that the kernel keeps: scheduling priority, and the memory that a core file may
// contain.
#pragma once

#include <sys/types.h>

// The scheduling priority (nice) of a program in a process group of its own, so that what starts or ends
// beside others takes the processor time that those leave.
//
// Thread: any. Errors: none; where the system does not permit a change, priorities stay as they are.

namespace elastictrain::launcher {

// By how much the nice value of programs in the background is above the caller's: a tenth of a busy core's time.
inline constexpr int kBackgroundNice = 10;

// Whether this process may give a program in the background the caller's priority back: it has CAP_SYS_NICE, or
// RLIMIT_NICE permits it.
bool may_end_background();

// All threads of all processes of the group.
void put_into_background(pid_t group);
void end_background(pid_t group);

// Keeps the run's key out of core files. Thread: any. Failure: none that matters.

// At 1 keep_memory_private() does nothing, for a debugger or a bug report.
inline constexpr const char* kCoreFilesVariable = "ELASTICTRAIN_CORE_FILES";

// This process writes no core file and no other process of its user may read its memory. Programs that it executes are
// not affected.
void keep_memory_private();

}  // namespace elastictrain::launcher

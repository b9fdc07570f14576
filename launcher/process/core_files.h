// Purpose: keeps the run's key out of core files. Thread: any. Failure: none that matters.
#pragma once

namespace elastictrain::launcher {

// At 1 keep_memory_private() does nothing, for a debugger or a bug report.
inline constexpr const char* kCoreFilesVariable = "ELASTICTRAIN_CORE_FILES";

// This process writes no core file and no other process of its user may read its memory. Programs that it executes are
// not affected.
void keep_memory_private();

}  // namespace elastictrain::launcher

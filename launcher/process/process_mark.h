// Purpose: names a process for good. A pid is used again after its process has ended; a mark never is, nor by a later
// start of the machine. Thread: any; short reads that do not block. Errors: an empty mark, or false.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace elastictrain::launcher {

// Empty: there is no such process.
std::string process_mark(pid_t pid);

// To the process that has started at this time (ProcessStat::start_ticks) only. False: it has ended, or waits for its
// parent.
bool signal_started(pid_t pid, std::uint64_t start_ticks, int number);
// To the process of this mark only. False: it has ended, or the mark is empty.
bool signal_marked(pid_t pid, const std::string& mark, int number);

}  // namespace elastictrain::launcher

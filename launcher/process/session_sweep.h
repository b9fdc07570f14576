// Purpose: finds and kills the processes that a process has left behind, however they changed their groups. Reads
// /proc.
// Thread: any. Errors: a process that exits meanwhile is not an error.
#pragma once

#include <sys/types.h>

#include <vector>

namespace elastictrain::launcher {

// The processes of this session that have not exited, except the caller.
std::vector<pid_t> session_members(pid_t session);

// Sends KILL to all of them.
void kill_session(pid_t session);

// All descendants of a process that have not exited, nearest first.
std::vector<pid_t> descendants(pid_t root);

// Reaps children that were adopted (their parents exited), except those that a Process watches.
void reap_adopted();

}  // namespace elastictrain::launcher

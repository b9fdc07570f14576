// Purpose: finds and kills what a process has left behind, however its offspring regrouped itself. Reads /proc.
// Thread: any. Failure: a process that ends meanwhile is none.
#pragma once

#include <sys/types.h>

#include <vector>

namespace elastictrain::launcher {

// The living processes of this session other than the caller.
std::vector<pid_t> session_members(pid_t session);

// KILL to all of them.
void kill_session(pid_t session);

// All living descendants of a process, nearest first.
std::vector<pid_t> descendants(pid_t root);

// Reaps children that were adopted (their parents died), leaving alone those that a Process watches.
void reap_adopted();

}  // namespace elastictrain::launcher

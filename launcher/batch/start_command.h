// Purpose: the command that this machine runs to start an agent on a host of the job's allocation, as pure functions.
// The agent's standard streams pass through these tools; that of PBS (pbs_tmrsh) passes none, so PBS jobs use ssh.
//
// Thread: pure functions. Errors: none; host names are checked where they are read.
#pragma once

#include <string>
#include <vector>

#include "launcher/batch/allocation.h"

namespace elastictrain::launcher {

// The program's name (srun, blaunch, qrsh, flux); empty if the system has no suitable one.
std::string start_tool_of(Scheduler scheduler);

// Returns whether a program of this name can be run here.
bool is_in_path(const std::string& program);

// `host` is one of the allocation's, or of `job`, another job of the same user.
std::vector<std::string> batch_start_command(const Allocation& allocation, const std::string& host,
                                             const std::string& job, const std::string& program);

}  // namespace elastictrain::launcher

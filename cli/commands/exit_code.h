// Purpose: the exit statuses of this program. A run that failed because of a worker ends with that worker's own status
// (1 to 125) or 128 + the signal that killed it; those are not listed here.
#pragma once

namespace elastictrain::cli {

enum ExitCode : int {
  kExitSuccess = 0,
  kExitFailure = 1,        // a command was understood and refused
  kExitUsage = 64,         // wrong flags or arguments
  kExitNoInput = 66,       // a file that the user named cannot be read
  kExitUnavailable = 69,   // too few hosts, no such run
  kExitInternal = 70,      // an internal error
  kExitCannotCreate = 73,  // the state directory, the log directory or another output cannot be written
  kExitStateLost = 74,     // the run ended as it should, but its last state is on no disk
  kExitPreempted = 75,     // asked to stop; the state is saved, start again later
  kExitProtocol = 76,      // a run or a cluster of another version, which answers what is not understood
  kExitNoPermission = 77,  // files of another user: the state directory
  kExitConfig = 78,        // a mistake in a config file
  kExitInterrupted = 130,  // Ctrl-C
};

}  // namespace elastictrain::cli

// Purpose: the stand-in for NCCL: real sums and transfers among threads and processes over loopback TCP, with the
// life cycle of NCCL 2.28 and its traps, some of them switched on by name while the program runs.
//
// Always, as NCCL 2.28.9 does (init.cc, group.cc, enqueue.cc):
//   - A call on a non-blocking communicator returns ncclInProgress, and a thread does the rest. Any call before
//     ncclCommGetAsyncError has said ncclSuccess is refused with ncclInvalidArgument, which then stays.
//   - The first collective of each algorithm meets all ranks to connect, unless NCCL_RUNTIME_CONNECT=0 (which is read
//     once) has connected them at init. The first transfers between two ranks meet both.
//   - The end of a communicator waits for all work that the device's streams hold.
//   - A build that is ended before its ranks have met leaves 4 descriptors, 2 streams and pinned memory behind.
//   - The first init waits for the device, unless CUDA_MODULE_LOADING=EAGER: it loads the kernels.
//
// Faults, as a comma-separated list; "name@2" is for rank 2 only, a bare name for all ranks. They come from
// standin_nccl_faults(), or from the file that ET_STANDIN_NCCL_CONTROL names, or from ET_STANDIN_NCCL_FAULTS:
//   stall-init        the communicator is never ready; abort still ends it
//   connect-late      the first collective of each algorithm connects in spite of NCCL_RUNTIME_CONNECT=0
//   sync-init         init waits until the whole device is idle, as an implicit synchronization does
//   fail-init         init ends with ncclSystemError
//   async-error       the communicator reports ncclRemoteError when no call is in progress, and keeps doing so, Shrink
//                     included
//   fail-shrink       Shrink ends with ncclSystemError
//   stall-shrink      Shrink is never done; an abort of the parent still ends it
//   stall-revoke      Revoke is never done; an abort still ends it
//   joint-revoke      Revoke is done when all ranks that are there have ended, as where they share a host
//   launch-late       what is called reaches the device 100 ms later
//   stall-run         what was launched does not run; RAS says that it was launched
//   never-called      the same, as if it had not been launched
//   silent-loss       a lost peer is not noticed, as over NVLink and shared memory
//   wedge-abort       ncclCommAbort does not return, and what runs goes on running, after a Revoke, too
//   join-abort        ncclCommAbort ends what runs, and then does not return, as where it joins its network threads
//   mapped-memory     an abort frees what kernels of other ranks read, which breaks the devices where one still runs
//   sticky-abort      after an abort the device fails every call (CUDA error 700)
// Thread: any.
#pragma once

#include <cstddef>

#include "tests/standin/standin_cuda.h"

struct StandinNcclCounters {
  int alive;      // communicators that were neither destroyed nor aborted
  int begun;      // inits
  int aborted;    // ncclCommAbort that returned
  int finalized;  // ncclCommFinalize
  int destroyed;  // ncclCommDestroy
  int intruders;  // calls on a communicator while another thread was inside
  int roots;      // unique ids made by this process: each leaves a thread and a socket
  int scalable;   // inits with several unique ids
  int shrunk;     // communicators made by Shrink
  int revoked;    // Revokes that were done
  int misused;    // calls that NCCL forbids: a second Shrink of one parent, Finalize after Revoke or Shrink,
                  // Revoke before the last call has ended
  int unpolled;   // calls before the last one has ended
  int leaked;     // communicators that left resources behind
  int met;        // collectives and transfers that met their peers to connect
  int summed;     // all-reduces that were done
};

STANDIN_API void standin_nccl_faults(const char* list);
STANDIN_API void standin_nccl_counters(StandinNcclCounters* counters);

// Purpose: a launch whose ranks come and go at different times, or whose launcher goes: who waits knows when to stop.
#pragma once

namespace elastictrain::comm::testing {

// Rank 0 joins MPI long before the others and leaves it long before them. An exit status.
int run_late_ranks();

// With MPICH: the ranks' connection to the launcher ends before they leave.
int run_lost_launcher();

}  // namespace elastictrain::comm::testing

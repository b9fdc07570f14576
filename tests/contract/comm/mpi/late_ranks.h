// Purpose: a launch whose ranks join and leave at different times, or whose launcher ends: a waiting rank must know
// when to stop.
#pragma once

namespace elastictrain::comm::testing {

// Rank 0 joins MPI long before the others and leaves it long before them. Returns an exit status.
int run_late_ranks();

// With MPICH: the ranks' connection to the launcher ends before they leave.
int run_lost_launcher();

}  // namespace elastictrain::comm::testing

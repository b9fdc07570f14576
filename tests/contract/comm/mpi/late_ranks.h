// Purpose: a launch whose ranks come and go at different times: who waits for the others knows when to stop.
#pragma once

namespace elastictrain::comm::testing {

// Rank 0 joins MPI long before the others and leaves it long before them. An exit status.
int run_late_ranks();

}  // namespace elastictrain::comm::testing

// Purpose: the program of the ranks of the session's MPI pools.
#pragma once

#include "tests/unit/train_session/test_worker.h"

namespace elastictrain::test {

inline constexpr const char* kRankArgument = "--rank-of-a-pool";

// From the environment, since the launcher starts the ranks.
inline constexpr const char* kEpochsVariable = "TEST_POOL_EPOCHS";
TestWorkerOptions pool_options();

}  // namespace elastictrain::test

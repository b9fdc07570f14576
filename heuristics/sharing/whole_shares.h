// Purpose: fits a policy's grants to what jobs and their users are bound by: a job runs with at least so many slots or
// not at all, a job that cannot be suspended keeps its least, a user has limits.
//
// Policies think in single slots and know no least size. A job that is granted some slots gets at least its least, in
// the order of jobs, as long as there are any; what its user's limits or its most do not allow goes to the others, but
// never more in all than the policy granted. While a job waits for its least, no later job begins: slots that come free
// go to jobs that run, and those give them back, so nobody waits for ever behind smaller jobs. Pure, deterministic.
// Cost: O(jobs + slots).
#pragma once

#include <cstdint>
#include <vector>

#include "heuristics/sharing/view.h"

namespace elastictrain::heuristics::sharing {

inline constexpr std::uint32_t kNoLimitOfSlots = UINT32_MAX;

struct Bounds {
  std::uint32_t least = 1;
  std::uint32_t most = 1;  // at least `least`
  bool runs = false;       // it has slots now
  bool keeps = false;      // it runs and cannot be suspended
  std::uint32_t user = 0;  // in `users`
};

struct UserLimits {
  std::uint32_t slots = kNoLimitOfSlots;    // of all its jobs together
  std::uint32_t running = kNoLimitOfSlots;  // jobs with slots
};

// One share per job, in their order; their sum is at most `slots`. `bounds` is as long as `grants`. A job that is to
// share the slots of another one (Grant::beside) gets none of its own.
std::vector<std::uint32_t> whole_shares(const std::vector<Grant>& grants, const std::vector<Bounds>& bounds,
                                        std::vector<UserLimits> users, std::uint32_t slots);

}  // namespace elastictrain::heuristics::sharing

// Purpose: grants within their bounds: of a built-in policy, by what jobs and users are bound by, and of one from
// outside, by what it may answer. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heuristics/sharing/view.h"

// Fits a policy's grants to what jobs and their users are bound by: a job runs with at least so many slots or
// not at all, a job that cannot be suspended keeps its least, a user has limits.
//
// Policies think in single slots and know no least size. A job that is granted some slots gets at least its least, in
// the order of jobs, as long as there are any; what its user's limits or its most do not allow goes to the others, but
// never more in all than the policy granted. While a job waits for its least, no later job begins: slots that come free
// go to jobs that run, and those give them back, so nobody waits for ever behind smaller jobs. Pure, deterministic.
// Cost: O(jobs + slots).

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

// Turns the answer of a policy from outside into a decision about the view that it was given, if it can be
// one.
//
// A job gets at most as many slots as its throughput says that it can use. One that is not named keeps what it holds,
// as far as the others leave it. All else that does not fit is a problem, and then there is no decision: an unknown
// job, a job twice, more slots than there are, a guest whose host is none. Pure.

struct Answer {
  struct Job {
    std::uint64_t id = 0;
    std::optional<std::uint32_t> slots;   // nothing: as many as it holds
    std::optional<std::uint64_t> beside;  // Grant::beside
    std::string reason;
  };
  std::vector<Job> jobs;
  std::optional<double> again_s;
};

// The least time from one decision to the next that an answer can ask for.
inline constexpr double kSoonestAgain_s = 0.1;

// With Decision::problem if it cannot be one.
Decision decision_of(const Answer& answer, const View& view);

}  // namespace elastictrain::heuristics::sharing

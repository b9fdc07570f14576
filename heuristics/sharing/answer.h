// Purpose: turns the answer of a policy from outside into a decision about the view that it was given, if it can be
// one.
//
// A job gets at most as many slots as its throughput says that it can use. One that is not named keeps what it holds,
// as far as the others leave it. All else that does not fit is a problem, and then there is no decision: an unknown
// job, a job twice, more slots than there are, a guest whose host is none. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heuristics/sharing/view.h"

namespace elastictrain::heuristics::sharing {

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

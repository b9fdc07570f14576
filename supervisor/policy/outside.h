// Purpose: what policies from outside, shared objects and programs, have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heuristics/policy/policy.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::policy {

// The reason code of "the size stays" when a policy from outside does not work.
inline constexpr const char* kPolicyFailed = "policy_failed";

// At most one of the two is set.
struct Outside {
  std::string library;               // path of a shared object
  std::string argument;              // handed on to it
  std::vector<std::string> program;  // with its arguments
  std::uint64_t timeout_ms = 1'000;  // for the program to answer, and to end
};

// One decision about one job; a reason that is not given is said to be missing. kInvalid with what is wrong.
Result<heuristics::Decision> read_decision(std::string_view text);

// Keeps the size of the run's one job.
heuristics::Decision failed_decision(const std::string& why);

// Decides whatever stands in `next`: how a program's answer takes part in what is composed around a policy.
std::unique_ptr<heuristics::Policy> relay(std::shared_ptr<const heuristics::Decision> next);

// Can it be used? Loads the library, looks for the program without running it. kInvalid with the path and what to do.
Status check_outside(const Outside& outside, std::uint64_t seed);

}  // namespace elastictrain::policy

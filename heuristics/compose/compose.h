// Purpose: policies around policies: what a wish must keep to whoever made it.
//
// Each takes the policy that it wraps and keeps that one's state within its own. Pure, as every policy is.
#pragma once

#include <cstdint>
#include <memory>

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

// A wished size within the job's own limits, what hosts have slots for, and what the batch rule has work for; the
// reason then says what held it back.
std::unique_ptr<Policy> with_limits(std::unique_ptr<Policy> inner);

// No size but the last one for `seconds` after a change was wished. What a job must do (it is outside of its limits)
// passes.
std::unique_ptr<Policy> with_cool_down(std::unique_ptr<Policy> inner, double seconds);

// A wished size counts only when it differs by more than `share` of the present one (0.1: 10 %), or has been wished in
// `views` views in a row.
std::unique_ptr<Policy> with_hysteresis(std::unique_ptr<Policy> inner, double share, std::uint32_t views);

}  // namespace elastictrain::heuristics

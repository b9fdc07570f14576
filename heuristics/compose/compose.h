// Purpose: policies that wrap a policy and restrict its decisions.
//
// Each keeps the state of the wrapped policy within its own. Pure, as every policy.
#pragma once

#include <cstdint>
#include <memory>

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

// Clamps the desired size to the job's own limits, the slots of its hosts, and the workers that the batch rule has work
// for. The reason then names the limit, as it does where a policy rests at one and wants more.
std::unique_ptr<Policy> with_limits(std::unique_ptr<Policy> inner);

// Keeps the size for `seconds` after a change was requested. A change that the job must make (its size is outside of
// its limits) passes.
std::unique_ptr<Policy> with_cool_down(std::unique_ptr<Policy> inner, double seconds);

// A desired size counts only if it differs from the present one by more than `share` (0.1: 10 %), or was desired in
// `views` consecutive views.
std::unique_ptr<Policy> with_hysteresis(std::unique_ptr<Policy> inner, double share, std::uint32_t views);

}  // namespace elastictrain::heuristics

// Purpose: policies made of policies: limits around one, and one for the size beside one that observes workers.
// Pure.
#pragma once

#include <cstdint>
#include <memory>

#include "heuristics/policy/policy.h"

// Policies that wrap a policy and restrict its decisions.
//
// Each keeps the state of the wrapped policy within its own. Pure, as every policy.

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

// Combines two policies on one job: one that decides on its size, and one that observes its workers.
//
// Both see every view and have states of their own. The decision contains the requests of both. If both decide on the
// same thing, the first one wins. The reason is the first one's with the second's finding added, or the second's alone
// if only that one changes something. Pure.

enum class Merge { kFindings, kChanges };

std::unique_ptr<Policy> beside(std::unique_ptr<Policy> first, std::unique_ptr<Policy> second,
                               Merge of_second = Merge::kFindings);

}  // namespace elastictrain::heuristics

// Purpose: combines two policies on one job: one that decides on its size, and one that observes its workers.
//
// Both see every view and have states of their own. The decision contains the requests of both. If both decide on the
// same thing, the first one wins. The reason is the first one's with the second's finding added, or the second's alone
// if only that one changes something. Pure.
#pragma once

#include <memory>

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

enum class Merge { kFindings, kChanges };

std::unique_ptr<Policy> beside(std::unique_ptr<Policy> first, std::unique_ptr<Policy> second,
                               Merge of_second = Merge::kFindings);

}  // namespace elastictrain::heuristics

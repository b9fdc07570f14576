// Purpose: two policies on one job: one for its size, and one that watches its workers.
//
// Both see every view and keep states of their own. What either wants is wanted; where both speak of the same thing the
// first counts. The reason is the first one's, with what the second found added to it, or only why it changes something.
// Pure.
#pragma once

#include <memory>

#include "heuristics/policy/policy.h"

namespace elastictrain::heuristics {

enum class Told { kFindings, kChanges };

std::unique_ptr<Policy> beside(std::unique_ptr<Policy> first, std::unique_ptr<Policy> second,
                               Told of_second = Told::kFindings);

}  // namespace elastictrain::heuristics

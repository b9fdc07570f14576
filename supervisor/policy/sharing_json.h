// Purpose: the view that a sharing policy from outside gets of a cluster, and its answer, as JSON of one line each.
// supervisor/policy/SHARING.md describes the fields. Pure.
//
// Errors: a decision with its problem, a sentence that says what is wrong and where. Unknown fields are ignored.
#pragma once

#include <string>
#include <string_view>

#include "heuristics/sharing/view.h"

namespace elastictrain::policy {

// Values that are not known are omitted.
std::string to_json(const heuristics::sharing::View& view);

heuristics::sharing::Decision sharing_decision(std::string_view text, const heuristics::sharing::View& view);

}  // namespace elastictrain::policy

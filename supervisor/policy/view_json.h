// Purpose: views and decisions as JSON of one line each: in the journal, for `elastictrain explain`, and for policies
// in other languages (README.md shows both directions). Field names are those of heuristics/policy/; values that are
// not known or not decided are omitted. Pure.
//
// Errors: kInvalid with what is wrong and where in the text; unknown fields are ignored, so that older programs read
// newer views.
#pragma once

#include <string>
#include <string_view>

#include "heuristics/policy/decision.h"
#include "heuristics/policy/view.h"
#include "supervisor/protocol/result.h"

namespace elastictrain::policy {

std::string to_json(const heuristics::ClusterView& view);
Result<heuristics::ClusterView> view_from_json(std::string_view text);

std::string to_json(const heuristics::Decision& decision);
Result<heuristics::Decision> decision_from_json(std::string_view text);

}  // namespace elastictrain::policy

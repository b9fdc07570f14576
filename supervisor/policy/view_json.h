// Purpose: views and decisions of policies as JSON of one line each, and texts from outside made fit for a journal
// and a terminal. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "heuristics/policy/decision.h"
#include "heuristics/policy/view.h"
#include "supervisor/protocol/result.h"

// Texts of policies from outside, made fit for a journal and a terminal. Pure.

namespace elastictrain::policy {

inline constexpr std::size_t kMaxReasonBytes = 1000;

// To at most so many bytes and an ellipsis, not in the middle of a character.
void shorten(std::string& text, std::size_t max_bytes);

// At most kMaxReasonBytes, and without characters that a terminal would obey.
std::string one_line(std::string text);

// Views and decisions as JSON of one line each: in the journal, for `elastictrain explain`, and for policies
// in other languages (README.md shows both directions). Field names are those of heuristics/policy/; values that are
// not known or not decided are omitted. Pure.
//
// Errors: kInvalid with what is wrong and where in the text; unknown fields are ignored, so that older programs read
// newer views.

std::string to_json(const heuristics::ClusterView& view);
Result<heuristics::ClusterView> view_from_json(std::string_view text);

std::string to_json(const heuristics::Decision& decision);
Result<heuristics::Decision> decision_from_json(std::string_view text);

}  // namespace elastictrain::policy

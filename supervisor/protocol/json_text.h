// Purpose: JSON to text and back, compiled once: nlohmann's parser and writer cost each file that instantiates them
// about two seconds. Pure. Failure: a text that is no JSON gives a value that is_discarded(); writing cannot fail.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace elastictrain {

inline constexpr int kAnyJsonDepth = 0;

// What lies deeper than `max_depth` levels is left out.
nlohmann::json parse_json(std::string_view text, int max_depth = kAnyJsonDepth);
nlohmann::ordered_json parse_ordered_json(std::string_view text, int max_depth = kAnyJsonDepth);

// Bytes that are not UTF-8 are replaced. One line, or with that many spaces a level.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace elastictrain

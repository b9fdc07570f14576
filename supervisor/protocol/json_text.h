// Purpose: JSON documents and single JSON values as text, and back. Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

// Single values as JSON text, byte for byte the same for equal values on every machine. Pure. What reads or
// writes whole documents uses protocol/json_text.h.

namespace elastictrain {

// With its quotes; bytes that are not printable ASCII or valid UTF-8 lead bytes are escaped.
std::string quoted_json(std::string_view text);
// Nine significant digits; null for what JSON has no number for.
std::string real_json(double value);

template <class List, class Convert>
std::string list_json(const List& values, Convert convert) {
  std::string out = "[";
  for (const auto& value : values) {
    if (out.size() > 1) out += ",";
    out += convert(value);
  }
  return out + "]";
}

// JSON to text and back, compiled once: nlohmann's parser and writer cost each file that instantiates them
// about two seconds. Pure. Failure: a text that is no JSON gives a value that is_discarded(); writing cannot fail.

inline constexpr int kAnyJsonDepth = 0;

// What lies deeper than `max_depth` levels is left out.
nlohmann::json parse_json(std::string_view text, int max_depth = kAnyJsonDepth);
nlohmann::ordered_json parse_ordered_json(std::string_view text, int max_depth = kAnyJsonDepth);

// Bytes that are not UTF-8 are replaced. One line, or with that many spaces a level.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace elastictrain

// Purpose: single values as JSON text, byte for byte the same for equal values on every machine. Pure. What reads or
// writes whole documents uses protocol/json_text.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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

}  // namespace elastictrain

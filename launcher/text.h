// Purpose: small parsers and writers for text from the system or from environments. Pure. Thread: any.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace elastictrain::launcher {

// The whole text as a number of this type.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The parts of "a,b", including empty ones; an empty text has none.
std::vector<std::string_view> split_commas(std::string_view text);
std::string join_with_commas(const std::vector<std::string>& parts);

}  // namespace elastictrain::launcher

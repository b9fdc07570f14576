// Purpose: small parsers and writers for text from the system, from environments and from tools. Pure.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Small parsers and writers for text from the system or from environments. Pure. Thread: any.

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

// A tool's output on standard error, short enough for one line of a message.
// Thread: pure functions. Errors: none; no output gives an empty text.

// Its last lines: a tool usually prints its error last, and the cause may be some lines before.
std::string last_lines(const std::string& text);

// Its first lines, for tools that print the error and then a long explanation, between lines of dashes.
std::string first_lines(const std::string& text);

}  // namespace elastictrain::launcher

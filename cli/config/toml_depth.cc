#include "cli/config/toml_depth.h"

#include <algorithm>

namespace elastictrain::cli {
namespace {

// The end of the string that begins here with a quote, or of the text if it has no end.
std::size_t end_of_string(std::string_view toml, std::size_t begin) {
  const char quote = toml[begin];
  const std::string_view three = toml.substr(begin, 3);
  const bool is_long = three.size() == 3 && three[1] == quote && three[2] == quote;
  const std::string_view closing = toml.substr(begin, is_long ? 3 : 1);
  for (std::size_t at = begin + closing.size(); at < toml.size(); ++at) {
    if (toml.substr(at).starts_with(closing)) return at + closing.size();
    if (!is_long && toml[at] == '\n') return at;  // for the parser to complain about
    if (quote == '"' && toml[at] == '\\') ++at;
  }
  return toml.size();
}

bool is_part_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == ' ' || c == '\t';
}

}  // namespace

std::optional<std::size_t> find_too_deep(std::string_view toml) {
  std::size_t parts = 1;
  for (std::size_t at = 0; at < toml.size();) {
    const char c = toml[at];
    if (c == '"' || c == '\'') {
      at = end_of_string(toml, at);
    } else if (c == '#') {
      at = std::min(toml.find('\n', at), toml.size());
    } else {
      if (c == '.') ++parts;
      if (c != '.' && !is_part_of_name(c)) parts = 1;
      ++at;
    }
    if (parts > kMaxKeyParts) {
      return 1 +
             static_cast<std::size_t>(std::count(toml.begin(), toml.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    }
  }
  return std::nullopt;
}

}  // namespace elastictrain::cli

#include "supervisor/core/pure/state_difference.h"

#include <cstddef>

namespace elastictrain::core {
namespace {

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

std::string quoted(std::string_view line) {
  return "'" + std::string(line) + "'";
}

}  // namespace

std::string first_difference(std::string_view mine, std::string_view others) {
  for (std::size_t number = 1; !mine.empty() || !others.empty(); ++number) {
    const bool has_mine = !mine.empty();
    const bool has_theirs = !others.empty();
    const std::string_view line = take_line(mine);
    const std::string_view theirs = take_line(others);
    const std::string place = "its item " + std::to_string(number);
    if (!has_mine) return place + " is not " + quoted(theirs) + ", as it is elsewhere";
    if (!has_theirs) return place + " is " + quoted(line) + ", which it is nowhere else";
    if (line != theirs) return place + " is " + quoted(line) + ", elsewhere it is " + quoted(theirs);
  }
  return "the difference is behind the items that a worker names";
}

}  // namespace elastictrain::core

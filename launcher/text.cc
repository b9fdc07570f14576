#include "launcher/text.h"

#include <algorithm>
#include <deque>
#include <sstream>

namespace elastictrain::launcher {

std::vector<std::string_view> split_commas(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    parts.push_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

std::string join_with_commas(const std::vector<std::string>& parts) {
  std::string text;
  for (const auto& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

namespace {

constexpr std::size_t kQuotedLines = 5;

std::deque<std::string> lines_of(const std::string& text) {
  std::deque<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

std::string on_one_line(const std::deque<std::string>& lines) {
  std::string summary;
  for (const auto& line : lines) summary += (summary.empty() ? "" : "; ") + line;
  return summary;
}

}  // namespace

std::string last_lines(const std::string& text) {
  auto lines = lines_of(text);
  while (lines.size() > kQuotedLines) lines.pop_front();
  return on_one_line(lines);
}

std::string first_lines(const std::string& text) {
  auto lines = lines_of(text);
  std::erase_if(lines, [](const std::string& line) { return line.find_first_not_of("-=") == std::string::npos; });
  lines.resize(std::min(lines.size(), kQuotedLines));
  return on_one_line(lines);
}

}  // namespace elastictrain::launcher

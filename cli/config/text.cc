#include "cli/config/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace elastictrain::cli {
namespace {

constexpr std::pair<std::string_view, std::uint64_t> kDurationUnits[] = {
    {"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};

std::optional<std::uint64_t> unit_ms(std::string_view unit) {
  for (const auto& [name, factor] : kDurationUnits) {
    if (name == unit) return factor;
  }
  return std::nullopt;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Removes one duration such as "12m" from the front of `text`.
std::optional<std::uint64_t> take_duration(std::string_view& text) {
  const std::size_t digits =
      static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
  const auto number = parse_whole_number(text.substr(0, digits));
  text.remove_prefix(digits);
  const std::size_t letters = static_cast<std::size_t>(std::find_if(text.begin(), text.end(), is_digit) - text.begin());
  const auto factor = unit_ms(text.substr(0, letters));
  text.remove_prefix(letters);
  if (!number || !factor || *number > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return *number * *factor;
}

}  // namespace

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    const std::string_view part = trim(text.substr(0, end));
    if (!part.empty()) parts.emplace_back(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

std::optional<std::uint64_t> parse_whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

Result<std::uint64_t> parse_duration_ms(std::string_view text) {
  const std::string_view whole = trim(text);
  if (const auto seconds = parse_whole_number(whole);
      seconds && *seconds <= std::numeric_limits<std::uint32_t>::max()) {
    return *seconds * 1'000;
  }
  std::uint64_t total_ms = 0;
  std::string_view rest = whole;
  while (!rest.empty()) {
    const auto part = take_duration(rest);
    if (!part) break;
    total_ms += *part;
    if (rest.empty()) return total_ms;
  }
  return Error{ErrorCode::kInvalid,
               "'" + std::string(text) + "' is not a duration; write 90 (seconds), 250ms, 5m or 1h30m"};
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + change});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::optional<std::string> closest(std::string_view word, std::span<const std::string> candidates) {
  const std::string* best = nullptr;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < std::max(word.size(), candidate.size())) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

}  // namespace elastictrain::cli

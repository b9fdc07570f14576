// Purpose: small text parsers that the configuration and several commands share. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

std::string_view trim(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);  // parts trimmed, empty ones removed
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::optional<std::uint64_t> parse_whole_number(std::string_view text);
std::optional<double> parse_number(std::string_view text);  // finite

// "90", "90s", "5m", "1h30m", "250ms". A number without a unit is in seconds. Returns milliseconds.
Result<std::uint64_t> parse_duration_ms(std::string_view text);

// The candidate that `word` was probably meant to be; nothing if none is close.
std::optional<std::string> closest(std::string_view word, std::span<const std::string> candidates);

// Number of inserted, removed, changed or swapped neighbouring characters between two words.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace elastictrain::cli

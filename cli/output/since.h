// Purpose: the flag --since of `logs` and `events`: a duration or a date as the beginning of a local time. Pure, but
// for the clock and the time zone.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "supervisor/protocol/result.h"

namespace elastictrain::cli {

// "2026-01-31T14:03:05", local.
std::string local_time_text(std::time_t time);

// Of "10m": the local time ten minutes before now. Of a date, or its beginning: the same text. Otherwise the mistake.
Result<std::string> parse_since(const std::string& text);

// Both as local_time_text writes them; `since` may be shorter, or empty: from the first on.
bool is_since(std::string_view time, std::string_view since);

}  // namespace elastictrain::cli

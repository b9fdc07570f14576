// Purpose: lines of the journal as text for users, and the local times by which lines are dated and chosen.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

#include "supervisor/journal_reference.h"
#include "supervisor/protocol/result.h"

// The flag --since of `logs` and `events`: a duration or a date as the beginning of a local time. Pure, but
// for the clock and the time zone.

namespace elastictrain::cli {

// "2026-01-31T14:03:05", local.
std::string local_time_text(std::time_t time);

// Of "10m": the local time ten minutes before now. Of a date, or its beginning: the same text. Otherwise the mistake.
Result<std::string> parse_since(const std::string& text);

// Both as local_time_text writes them; `since` may be shorter, or empty: from the first on.
bool is_since(std::string_view time, std::string_view since);

// One line of the journal as text for users. Pure.

// "14:03:05.123  ", local; empty for a number that is not a plausible time.
std::string clock_text(double unix_seconds);
// "2026-01-31T14:03:05.123", as `logs --timestamps` has it.
std::string date_text(double unix_seconds);

// When a line was written, as date_text; empty if it does not say.
std::string event_time(std::string_view journal_line);

// The event of a line; empty if it is no record.
std::string event_name(std::string_view journal_line);

// Of a line that is no record: kInfo.
JournalLevel event_level(std::string_view journal_line);

enum class EventTime : std::uint8_t { kDate, kClock };

// Renders a JSON line as "2026-01-31T14:03:05.123  commit  generation=3 world_size=4 reason="…"", with "warning: " or
// "error: " before the event of that level, without the date for kClock. Returns an empty string for records that only
// programs read, and any other line unchanged.
std::string render_event(std::string_view journal_line, EventTime time = EventTime::kDate);

}  // namespace elastictrain::cli

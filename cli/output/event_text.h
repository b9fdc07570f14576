// Purpose: one line of the journal as text for users. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "supervisor/journal_levels.h"

namespace elastictrain::cli {

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

// Purpose: one line of the journal as text for users. Pure.
#pragma once

#include <string>
#include <string_view>

namespace elastictrain::cli {

// "14:03:05.123  ", local; empty for a number that is not a plausible time.
std::string clock_text(double unix_seconds);

// The event of a line; empty if it is no record.
std::string event_name(std::string_view journal_line);

// Whether it is a part of another event: a step of a change, the start of a worker.
bool is_detail(std::string_view event);

// Renders a JSON line as "14:03:05.123  commit  generation=3 world_size=4 reason="…"". Returns an empty string for
// records that only programs read, and any other line unchanged.
std::string render_event(std::string_view journal_line);

}  // namespace elastictrain::cli

// Purpose: one line of the journal as text for users. Pure.
#pragma once

#include <string>
#include <string_view>

namespace elastictrain::cli {

// Renders a JSON line as "14:03:05.123  commit  generation=3 world_size=4 reason="…"". Returns an empty string for
// records that only programs read, and any other line unchanged.
std::string render_event(std::string_view journal_line);

}  // namespace elastictrain::cli

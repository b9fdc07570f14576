// Purpose: one line of the journal as people read it. Pure.
#pragma once

#include <string>
#include <string_view>

namespace elastictrain::cli {

// Empty for what only programs read.
// "14:03:05.123  commit  generation=3 world_size=4 reason="…"" for a JSON line; a line that is none is returned as it
// is.
std::string render_event(std::string_view journal_line);

}  // namespace elastictrain::cli

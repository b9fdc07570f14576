// Purpose: keys of notes that the library writes and the supervisor acts on. A program's own notes have other keys.
#pragma once

#include <string_view>

namespace elastictrain::protocol {

// The worker asks for another one in its place: a process other than its agent has sent it TERM, the first one, which
// it survives, or its process holds too much that a library leaks. May arrive twice.
inline constexpr std::string_view kTermNote = "elastictrain.term";
// The program wrote more notes than a run keeps. The value says how many and what the limit is.
inline constexpr std::string_view kNotesDropped = "elastictrain.notes_dropped";

}  // namespace elastictrain::protocol

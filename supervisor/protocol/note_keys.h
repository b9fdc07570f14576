// Purpose: keys of notes that the library writes and the supervisor acts on. A program's own notes have other keys.
#pragma once

#include <string_view>

namespace elastictrain::protocol {

// A process other than its agent has sent the worker TERM, the first one, which it survives. May arrive twice.
inline constexpr std::string_view kTermNote = "elastictrain.term";

}  // namespace elastictrain::protocol

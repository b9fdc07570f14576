// Purpose: keys of notes that our library writes and the supervisor acts on. A program's own notes have other keys.
#pragma once

#include <string_view>

namespace elastictrain::protocol {

// Somebody else than its agent has sent the worker TERM, the first one, which it survives. May come twice.
inline constexpr std::string_view kTermNote = "elastictrain.term";

}  // namespace elastictrain::protocol

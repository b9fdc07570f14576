// Purpose: what a tool said on its standard error, short enough for one line of a message.
// Thread: pure functions. Failure: none; nothing said is an empty text.
#pragma once

#include <string>

namespace elastictrain::launcher {

// Its last lines: what a tool says last is usually what is wrong, and the cause may stand some lines before.
std::string last_words(const std::string& text);

// Its first lines, for tools that say what is wrong and then explain at length, within rules of dashes.
std::string first_words(const std::string& text);

}  // namespace elastictrain::launcher

// Purpose: a tool's output on standard error, short enough for one line of a message.
// Thread: pure functions. Errors: none; no output gives an empty text.
#pragma once

#include <string>

namespace elastictrain::launcher {

// Its last lines: a tool usually prints its error last, and the cause may be some lines before.
std::string last_lines(const std::string& text);

// Its first lines, for tools that print the error and then a long explanation, between lines of dashes.
std::string first_lines(const std::string& text);

}  // namespace elastictrain::launcher

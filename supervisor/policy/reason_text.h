// Purpose: texts of policies from outside, made fit for a journal and a terminal. Pure.
#pragma once

#include <cstddef>
#include <string>

namespace elastictrain::policy {

inline constexpr std::size_t kMaxReasonBytes = 1000;

// To at most so many bytes and an ellipsis, not in the middle of a character.
void shorten(std::string& text, std::size_t max_bytes);

// At most kMaxReasonBytes, and without characters that a terminal would obey.
std::string one_line(std::string text);

}  // namespace elastictrain::policy

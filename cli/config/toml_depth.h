// Purpose: finds names with more parts than any key has, before the parser recurses over them. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace elastictrain::cli {

inline constexpr std::size_t kMaxKeyParts = 32;

// The line (from 1) of the first name a.b.c… with more than kMaxKeyParts parts; strings and comments are left out.
std::optional<std::size_t> find_too_deep(std::string_view toml);

}  // namespace elastictrain::cli

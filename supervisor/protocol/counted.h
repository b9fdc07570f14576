// Purpose: a number with what it counts, as users read it: "1 worker", "3 workers", "2 processes". Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace elastictrain::protocol {

// `several`: its plural; without it, `one` and an s.
inline std::string counted(std::uint64_t number, std::string_view one, std::string_view several = {}) {
  std::string text = std::to_string(number) + " ";
  if (number != 1 && !several.empty()) return text.append(several);
  return text.append(one).append(number == 1 ? "" : "s");
}

}  // namespace elastictrain::protocol

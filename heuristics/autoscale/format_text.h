// Purpose: formats the texts of reasons, as printf does.
#pragma once

#include <string>

namespace elastictrain::heuristics {

[[gnu::format(printf, 1, 2)]] std::string format_text(const char* format, ...);

}  // namespace elastictrain::heuristics

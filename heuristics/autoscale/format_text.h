// Purpose: formats the texts of reasons, as printf does.
#pragma once

#include <string>

namespace elastictrain::heuristics {

[[gnu::format(printf, 1, 2)]] std::string format_text(const char* format, ...);

// How many digits after the point tell a number from the one that it is compared with: two, or as many as it takes up
// to six.
int digits_apart(double number, double from);

}  // namespace elastictrain::heuristics

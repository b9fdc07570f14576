#include "cli/chart/markup.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "cli/output/printable.h"

namespace elastictrain::cli::chart {

std::string escaped(const std::string& text) {
  std::string markup;
  for (const char c : printable(text, Lines::kOne)) {
    switch (c) {
      case '&':
        markup += "&amp;";
        break;
      case '<':
        markup += "&lt;";
        break;
      case '>':
        markup += "&gt;";
        break;
      case '"':
        markup += "&quot;";
        break;
      default:
        markup += c;
    }
  }
  return markup;
}

std::string number_text(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, std::isfinite(value) ? value : 0.0);
  std::string out = text.data();
  if (out.find('.') == std::string::npos) return out;
  out.erase(out.find_last_not_of('0') + 1);
  if (out.ends_with('.')) out.pop_back();
  return out == "-0" ? "0" : out;
}

}  // namespace elastictrain::cli::chart

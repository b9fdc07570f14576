#include "heuristics/autoscale/format_text.h"

#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace elastictrain::heuristics {

std::string format_text(const char* format, ...) {
  char text[400];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

int digits_apart(double number, double from) {
  int digits = 2;
  for (double unit = 0.01; digits < 6 && std::abs(number - from) < unit / 2; unit /= 10) ++digits;
  return digits;
}

}  // namespace elastictrain::heuristics

#include "heuristics/autoscale/format_text.h"

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

}  // namespace elastictrain::heuristics

#include "heuristics/autoscale/words.h"

#include <cstdarg>
#include <cstdio>

namespace elastictrain::heuristics {

std::string words(const char* format, ...) {
  char text[400];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

}  // namespace elastictrain::heuristics

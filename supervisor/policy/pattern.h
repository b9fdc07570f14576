// Purpose: matches names of hosts and of variables against a pattern, as in a shell. Pure.
#pragma once

#include <fnmatch.h>

#include <string>

namespace elastictrain {

inline bool fits_pattern(const std::string& text, const std::string& pattern) {
  return ::fnmatch(pattern.c_str(), text.c_str(), FNM_NOESCAPE) == 0;
}

}  // namespace elastictrain

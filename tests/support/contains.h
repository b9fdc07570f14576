// Purpose: whether a message says something, for checks on texts.
#pragma once

#include <string>

namespace elastictrain::test {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace elastictrain::test

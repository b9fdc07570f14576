// Purpose: a case that cannot be tested on this machine reports it, and the program ends with the status that ctest
// takes for "skipped" unless another case has failed.
#pragma once

#include <string>

namespace elastictrain::tests {

inline constexpr int kSkipStatus = 77;  // as in automake

void skip_aloud(const std::string& why);

}  // namespace elastictrain::tests

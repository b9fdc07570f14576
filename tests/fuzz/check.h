// Purpose: a fuzz target's assertion about a result. A failed one ends the process, so that the fuzzer keeps the input.
#pragma once

#include "supervisor/protocol/result.h"

namespace elastictrain::fuzz {

inline void check(bool claim, const char* what) {
  if (!claim) panic(what);
}

}  // namespace elastictrain::fuzz

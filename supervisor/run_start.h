// Purpose: the kinds of start of a supervisor. Plain data.
#pragma once

#include <cstdint>

namespace elastictrain {

// kFresh: a new run. kTakeOver: one whose supervisor is gone and which may still train. kStartAgain: one that ended
// before its training was complete; it continues from its newest checkpoint, with its generation numbers.
enum class RunStart : std::uint8_t { kFresh, kTakeOver, kStartAgain };

}  // namespace elastictrain

// Purpose: a duration as all texts for users write it: 4.2 ms, 12.3 s, 2m 05s, 1h 02m, 3d 04h. Pure. The same text as
// supervisor/protocol/display_text.h, which this folder may not include; a test compares them.
#pragma once

#include <string>

namespace elastictrain::heuristics {

std::string duration_text(double seconds);  // "-" if it is negative or not a number

}  // namespace elastictrain::heuristics

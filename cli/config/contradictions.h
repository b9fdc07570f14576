// Purpose: what one key alone cannot tell: values that contradict each other, time-outs in the wrong order,
// alternatives of which only one may be chosen. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/config/load.h"

namespace elastictrain::cli {

struct Contradiction {
  std::string message;
  Level level = Level::kDefault;  // the lowest level of the keys involved, default left out
};

// A flag replaces a file's alternative: -H drops hosts.file, a program after "--" drops [trainer], --policy drops
// policy.program.
void settle_alternatives(LoadedConfig& loaded);

// Of a configuration that starts nothing, nobody asks for a program.
std::vector<Contradiction> find_contradictions(const LoadedConfig& loaded, bool starts_nothing);

// The time-outs in the order in which they must grow, for `check`.
struct TimeoutOrder {
  const char* smaller;
  const char* larger;
  bool may_be_equal;
  const char* why;
};
const std::vector<TimeoutOrder>& timeout_order();

}  // namespace elastictrain::cli

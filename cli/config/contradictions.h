// Purpose: checks that involve several keys: contradicting values, time-outs in the wrong order, alternatives of which
// only one may be chosen. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/config/load.h"

namespace elastictrain::cli {

struct Contradiction {
  std::string message;
  Level level = Level::kDefault;  // the lowest level of the keys involved, without keys at their default
};

// A flag replaces a file's alternative: -H removes hosts.file, a program after "--" removes [trainer], --policy removes
// policy.program.
void settle_alternatives(LoadedConfig& loaded);

// `starts_nothing`: the command starts no program, so none is required.
std::vector<Contradiction> find_contradictions(const LoadedConfig& loaded, bool starts_nothing);

// The time-outs in the order in which they must increase, for `check`.
struct TimeoutOrder {
  const char* smaller;
  const char* larger;
  bool may_be_equal;
  const char* why;
};
const std::vector<TimeoutOrder>& timeout_order();

}  // namespace elastictrain::cli

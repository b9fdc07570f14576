// Purpose: actions as text, one line each, for scenarios and for the traces of failing simulations.
#pragma once

#include <functional>
#include <string>

#include "supervisor/core/pure/action.h"

namespace elastictrain::core {

// What is written for a sentence that a person reads.
using Say = std::function<std::string(const std::string& sentence)>;

// Empty for timers, whose numbers would only make scenarios hard to read.
std::string describe(const Action& action, const Say& say);
// With the sentences themselves.
std::string describe(const Action& action);

}  // namespace elastictrain::core

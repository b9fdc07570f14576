// Purpose: actions as text, one line each, for scenarios and for the traces of failing simulations.
#pragma once

#include <string>

#include "supervisor/core/pure/action.h"

namespace elastictrain::core {

// Empty for timers, whose numbers would only make scenarios hard to read.
std::string describe(const Action& action);

}  // namespace elastictrain::core

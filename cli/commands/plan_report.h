// Purpose: a plan with what it was made of, as text for people and as one JSON object for programs. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "cli/commands/size_plan.h"

namespace elastictrain::cli {

// The drawing of so many columns, what was measured, and what time and cost stand for.
std::string render_plan(const SizePlan& plan, std::size_t columns);

// {"goal","limit"?,"limit_met"?,"choice","reason","points":[…],"measured":[…],"noise_scale"?,"notes":[…]} on one line.
// A point has "workers", "batch" (of one worker), "step_s", "seconds", "cost", "measured", and "is": a list of
// "chosen", "fastest", "cheapest", "knee".
std::string render_plan_json(const SizePlan& plan);

}  // namespace elastictrain::cli

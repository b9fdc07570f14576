// Purpose: a plan with the measurements behind it, as text for users and as one JSON object for programs. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "cli/commands/size_plan.h"

namespace elastictrain::cli {

// The drawing with `columns` columns, the measurements, and what time and cost refer to.
std::string render_plan(const SizePlan& plan, std::size_t columns, bool unicode);

// {"goal","limit"?,"limit_met"?,"choice","reason","points":[…],"measured":[…],"noise_scale"?,"sgd_noise"?,"notes":[…]}
// on one line. A point has "workers", "batch" (of one worker), "step_s", "seconds", "cost", "measured", and "is": a
// list of "chosen", "fastest", "cheapest", "knee".
std::string render_plan_json(const SizePlan& plan);

}  // namespace elastictrain::cli

// Purpose: the plan that `elastictrain plan` shows: from what was measured of a job and how it is configured to time
// and cost of each size and batch, and the choice. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands/job_profile.h"
#include "cli/commands/run_plan.h"
#include "cli/config/run_config.h"
#include "heuristics/scavenger/plan_curve.h"

namespace elastictrain::cli {

struct MeasuredPoint {
  heuristics::StepTimePoint point;
  double steps = 0;  // that it is the mean of
};

struct SizePlan {
  heuristics::PlanCurve curve;
  std::vector<MeasuredPoint> measured;
  std::optional<double> noise_scale;  // in samples
  std::vector<std::string> notes;     // what time and cost stand for, where nobody said; a sentence each
};

// Sizes, batches, hosts and prices are those of `plan` where there is one, else those of the run that was measured,
// else those of the table. `noise_scale` counts before what was measured. Errors: kUnavailable when too little was
// measured, kInvalid for a deadline or a budget of a job whose length is not known.
Result<SizePlan> make_size_plan(const JobProfile& profile, const RunConfig& config, const std::optional<RunPlan>& plan,
                                std::optional<double> noise_scale);

}  // namespace elastictrain::cli

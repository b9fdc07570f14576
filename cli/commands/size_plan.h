// Purpose: the plan that `elastictrain plan` shows: from measurements of a job and its configuration to time and cost
// of each size and batch, and the choice. Pure.
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
  double steps = 0;  // steps that the mean is over
};

struct SizePlan {
  heuristics::PlanCurve curve;
  std::vector<MeasuredPoint> measured;
  std::optional<double> noise_scale;  // in samples
  std::optional<double> sgd_noise;    // Scavenger's gamma with the base batch, where epochs follow from it
  std::uint64_t base_batch = 0;       // samples
  std::vector<std::string> notes;     // assumptions about time and cost where no setting was given; a sentence each
};

// Sizes, batches, hosts and prices come from `plan` if there is one, else from the measured run, else from the table.
// `noise_scale` overrides a measured one. Errors: kUnavailable if too little was measured, kInvalid for a deadline or a
// budget of a job whose length is not known.
Result<SizePlan> make_size_plan(const JobProfile& profile, const RunConfig& config, const std::optional<RunPlan>& plan,
                                std::optional<double> noise_scale);

}  // namespace elastictrain::cli

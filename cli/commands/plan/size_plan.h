// Purpose: plan of a job's size from its measured step times, with time and cost of each size, as text and JSON.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/run/run_plan.h"
#include "cli/config/run_config.h"
#include "heuristics/policy/view.h"
#include "heuristics/scavenger/job_plan.h"
#include "heuristics/scavenger/plan_curve.h"
#include "supervisor/core/pure/records.h"
#include "supervisor/protocol/result.h"

// Measured durations of a job's steps, by number of workers and samples. The source is a table, a run's
// journal, or the records of a run as they arrive.
//
// profile_of_journal() and read_profile_file() read files; the rest is pure. Errors: returned as values that name the
// file, the line and what is expected.

namespace elastictrain::cli {

struct JobProfile {
  heuristics::StepMeasurements measured;
  std::optional<double> noise_scale;                 // that a table names, in samples
  std::optional<heuristics::ClusterView> last_view;  // of a run
};

// Adds a record of a run's journal. A record that is not a view changes nothing.
void add_record(JobProfile& profile, const core::Record& record);

// `text` is CSV with a line of column names (workers,batch,step_s and, if known, steps), or JSON: a list of objects
// with these names, or an object that has the list as "measured" (and, if known, "noise_scale"), as `plan --json`
// prints it. `file_name` is for messages.
Result<JobProfile> profile_of_table(std::string_view text, const std::string& file_name);

Result<JobProfile> read_profile_file(const std::string& path);
Result<JobProfile> profile_of_journal(const std::string& path);

// The plan that `elastictrain plan` shows: from measurements of a job and its configuration to time and cost
// of each size and batch, and the choice. Pure.

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

// A plan with the measurements behind it, as text for users and as one JSON object for programs. Pure.

// The drawing with `columns` columns, the measurements, and what time and cost refer to.
std::string render_plan(const SizePlan& plan, std::size_t columns, bool unicode);

// {"goal","limit"?,"limit_met"?,"choice","reason","points":[…],"measured":[…],"noise_scale"?,"sgd_noise"?,"notes":[…]}
// on one line. A point has "workers", "batch" (of one worker), "step_s", "seconds", "cost", "measured", and "is": a
// list of "chosen", "fastest", "cheapest", "knee".
std::string render_plan_json(const SizePlan& plan);

}  // namespace elastictrain::cli

// Purpose: measured durations of a job's steps, by number of workers and samples. The source is a table, a run's
// journal, or the records of a run as they arrive.
//
// profile_of_journal() and read_profile_file() read files; the rest is pure. Errors: returned as values that name the
// file, the line and what is expected.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "heuristics/policy/view.h"
#include "heuristics/scavenger/job_plan.h"
#include "supervisor/core/pure/records.h"
#include "supervisor/protocol/result.h"

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

}  // namespace elastictrain::cli

// Purpose: describes a run that has ended, from the journal and the record that it left.
// Reads the run's directory. Thread: any. Errors: values that name the file.
#pragma once

#include <string>

#include "supervisor/protocol/result.h"
#include "supervisor/run_record.h"

namespace elastictrain::cli {

Result<std::string> summary_of_ended(const std::string& directory, const RunRecord& record);

// "run NAME has ended: WHY (status 0), 2m 05s ago (2026-01-31T14:03:05)". The record has an end.
std::string how_it_ended(const RunRecord& record);

}  // namespace elastictrain::cli
